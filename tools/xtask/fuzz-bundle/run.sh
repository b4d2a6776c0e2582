#!/usr/bin/env bash
# Runs the fuzzers of this bundle, which needs bash and nothing else of ours.
#
#   ./run.sh SECONDS FOLDER [TARGET...]     JOBS=<processes>, all cores unless set; WORK=<folder for the inputs
#                                           met on the way>, FOLDER/work unless set
#
# All targets, or those named, together for so long. What is found is in FOLDER: findings/TARGET (inputs that
# crash, hang or take too much memory; the log says why), corpus/TARGET (inputs that together reach all that
# was reached), logs, and summary, which is printed at the end. Exit status: 0 if there is no finding.
set -u

if [ $# -lt 2 ]; then
    sed -n '2,/^set/{/^#/s/^# \{0,1\}//p;}' "${BASH_SOURCE[0]}"
    exit 2
fi
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd) || exit 1
seconds=$1
mkdir -p "$2" || exit 1
out=$(cd "$2" && pwd) || exit 1
shift 2
targets=("$@")
if [ $# -eq 0 ]; then
    # Those with the most to find first.
    targets=(kernel ptx nvdb_file nvdb_grid)
    for program in "$here"/bin/*; do
        case " ${targets[*]} " in *" ${program##*/} "*) ;; *) targets+=("${program##*/}") ;; esac
    done
fi
jobs=${JOBS:-$(nproc)}
work=${WORK:-$out/work}
waves=$(((${#targets[@]} + jobs - 1) / jobs))
each=$((seconds / waves))
# Where there are more processes than targets, the first ones get one more.
share=$((jobs / ${#targets[@]}))
more=$((jobs % ${#targets[@]}))

options() {
    echo -timeout=10 -rss_limit_mb=2048
    local dictionary=$1
    # They read the same language.
    case $1 in kernel | ptx_link) dictionary=ptx ;; esac
    [ -f "$here/dictionaries/$dictionary.dict" ] && echo "-dict=$here/dictionaries/$dictionary.dict"
}

# fuzz TARGET PROCESSES
fuzz() {
    mkdir -p "$work/$1" "$out/findings/$1" "$out/logs"
    # shellcheck disable=SC2046
    "$here/bin/$1" $(options "$1") "-max_total_time=$each" "-fork=$2" \
        -ignore_crashes=1 -ignore_timeouts=1 -ignore_ooms=1 "-artifact_prefix=$out/findings/$1/" \
        "$work/$1" "$here/corpus/$1" >"$out/logs/$1.log" 2>&1
}

# By edges alone: with how often each is passed, there would be ten times as many.
merge() {
    rm -rf "${out:?}/corpus/$1"
    mkdir -p "$out/corpus/$1"
    rm -f "$out/logs/$1.control"
    # shellcheck disable=SC2046
    "$here/bin/$1" $(options "$1") -set_cover_merge=1 -use_counters=0 \
        "-merge_control_file=$out/logs/$1.control" "$out/corpus/$1" "$here/corpus/$1" "$work/$1" \
        >"$out/logs/$1.merge.log" 2>&1
    # Findings that were fixed are kept by name.
    cp "$here/corpus/$1"/crash-* "$out/corpus/$1/" 2>/dev/null
    "$here/bin/$1" -runs=0 "$out/corpus/$1" >"$out/logs/$1.coverage.log" 2>&1
}

# field NAME FILE: the last number behind a word.
field() { sed -n "s/.* $1: \([0-9]*\).*/\1/p" "$2" | tail -n 1; }

summary() {
    local target log coverage executions edges
    printf '%-12s %12s %8s %16s %9s %7s %8s\n' target executions seconds edges features inputs findings
    for target in "${targets[@]}"; do
        log=$out/logs/$target.log coverage=$out/logs/$target.coverage.log
        executions=$(sed -n 's/^#\([0-9]*\): cov.*/\1/p' "$log" | tail -n 1)
        edges=$(sed -n 's/.*Loaded 1 modules *(\([0-9]*\) inline.*/\1/p' "$coverage" | head -n 1)
        printf '%-12s %12s %8s %16s %9s %7s %8s\n' "$target" "${executions:-none}" \
            "$((each * $(cat "$out/logs/$target.jobs")))" "$(field cov "$coverage") of $edges" \
            "$(field ft "$coverage")" "$(find "$out/corpus/$target" -type f | wc -l)" \
            "$(find "$out/findings/$target" -type f | wc -l)"
    done
}

mkdir -p "$out/logs"
running=0
for n in "${!targets[@]}"; do
    target=${targets[$n]}
    processes=$((share + (n < more ? 1 : 0)))
    [ "$processes" -eq 0 ] && processes=1
    echo "$processes" >"$out/logs/$target.jobs"
    if [ "$running" -ge "$jobs" ]; then
        wait
        running=0
    fi
    fuzz "$target" "$processes" &
    running=$((running + processes))
done
wait
running=0
for target in "${targets[@]}"; do
    if [ "$running" -ge "$jobs" ]; then
        wait -n
        running=$((running - 1))
    fi
    merge "$target" &
    running=$((running + 1))
done
wait
summary | tee "$out/summary"
[ -z "$(find "$out/findings" -type f)" ]
