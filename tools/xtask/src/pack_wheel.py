"""Packs a wheel: the file, then for each file its name in the wheel, its path, and its mode in octal."""

import base64
import csv
import hashlib
import io
import sys
import zipfile

# The same input gives the same bytes: an archive has no times but this one, the first that zip knows.
TIME = (1980, 1, 1, 0, 0, 0)


def entry(name, mode):
    info = zipfile.ZipInfo(name, TIME)
    info.external_attr = (0o100000 | mode) << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    return info


def main():
    wheel, record, *words = sys.argv[1:]
    rows = []
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, path, mode in zip(words[0::3], words[1::3], words[2::3]):
            with open(path, "rb") as file:
                content = file.read()
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            rows.append((name, "sha256=" + digest, len(content)))
            archive.writestr(entry(name, int(mode, 8)), content, compresslevel=9)
        rows.append((record, "", ""))
        table = io.StringIO()
        csv.writer(table, lineterminator="\n").writerows(rows)
        archive.writestr(entry(record, 0o644), table.getvalue())


main()
