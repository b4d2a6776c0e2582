//! Records on a GPU what textures return: `texture-capture FOLDER`.
//!
//! Each mode leaves a file of its words in the folder, and a line on the screen. A child process runs the modes: when a
//! mode ends it or loses the device, another child goes on with the next mode. At the end the files `all*.z` have all words.

use std::collections::HashMap;
use std::error::Error;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use cuda_sys::Driver;
use texture_goldens::{
    Device, Golden, describe, difference, hash, mistakes, modes, pack, probes, ptx, run, run_wrong,
    unpack,
};

/// The option of a child: the first mode follows.
const CHILD: &str = "--from";
/// The files of a recording: one alone would be too large to carry.
const PARTS: usize = 3;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        ["ptx", folder] => texts(Path::new(folder)),
        [CHILD, from, folder] => child(from, Path::new(folder)),
        ["compare", folder] => compared(Path::new(folder), "", 0),
        ["compare", folder, part, count] => {
            compared(Path::new(folder), part, count.parse().unwrap_or(3))
        }
        ["mistake", number, folder] => mistaken(number, Path::new(folder)),
        ["probes", folder] => probed(Path::new(folder)),
        [folder] => capture(Path::new(folder)),
        _ => Err("usage: texture-capture FOLDER".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs children until all modes have been tried.
fn capture(folder: &Path) -> Result<(), Box<dyn Error>> {
    std::fs::create_dir_all(folder)?;
    let program = std::env::current_exe()?;
    let place = folder.join("next");
    let count = modes().len();
    let mut next = 0;
    while next < count {
        std::fs::write(&place, next.to_string())?;
        let status =
            Command::new(&program).args([CHILD, &next.to_string()]).arg(folder).status()?;
        // The child writes the number of a mode before it starts it.
        let reached: usize = std::fs::read_to_string(&place)?.trim().parse()?;
        if status.success() || reached >= count {
            break;
        }
        println!("mode {reached} ended its process ({status})");
        next = reached + 1;
    }
    let status = Command::new(&program).arg("probes").arg(folder).status()?;
    println!("probes: {status}");
    for number in 0..mistakes().len() {
        let mut command = Command::new(&program);
        let status = command.args(["mistake", &number.to_string()]).arg(folder).status()?;
        if !status.success() {
            println!("mistake {number}: {status}");
        }
    }
    std::fs::remove_file(&place)?;
    for part in 0..PARTS {
        packed(folder, part)?;
    }
    for mode in modes() {
        // A mode that was refused has none.
        let _ = std::fs::remove_file(file(folder, &mode.name, "bin"));
    }
    println!("{count} modes in {}", folder.display());
    Ok(())
}

fn child(from: &str, folder: &Path) -> Result<(), Box<dyn Error>> {
    let from: usize = from.parse()?;
    let device = Device::new(Driver::load()?)?;
    let about = device.about()?;
    if from == 0 {
        println!("{about}");
        std::fs::write(folder.join("about.txt"), about)?;
    }
    for (at, mode) in modes().iter().enumerate().skip(from) {
        std::fs::write(folder.join("next"), at.to_string())?;
        let first = run(&device, mode);
        let again = run(&device, mode);
        match (first, again) {
            (Ok(words), Ok(again)) => {
                let stable = if words == again { "" } else { " UNSTABLE" };
                println!("{at} {} {:016x}{stable}", mode.name, hash(&words));
                let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
                std::fs::write(file(folder, &mode.name, "bin"), bytes)?;
            }
            (Err(call), _) | (_, Err(call)) => {
                println!("{at} {} REFUSED {call}", mode.name);
                let refused = folder.join("refused.txt");
                let mut log = OpenOptions::new().create(true).append(true).open(refused)?;
                writeln!(log, "{} {call}", mode.name)?;
                if lost(call.code) {
                    return Err("the device is lost".into());
                }
            }
        }
    }
    std::fs::write(folder.join("next"), modes().len().to_string())?;
    Ok(())
}

/// Whether a code says that the context is lost.
fn lost(code: i64) -> bool {
    matches!(code, 700..=720 | 214 | 999 | 4)
}

fn probed(folder: &Path) -> Result<(), Box<dyn Error>> {
    let device = Device::new(Driver::load()?)?;
    let mut file = std::fs::File::create(folder.join("probes.txt"))?;
    let mut written = Ok(());
    probes(&device, &mut |line| {
        if written.is_ok() {
            written = writeln!(file, "{line}");
        }
    });
    Ok(written?)
}

/// Runs the modes whose names have `part` and compares with a recording.
fn compared(folder: &Path, part: &str, count: usize) -> Result<(), Box<dyn Error>> {
    let mut recorded = HashMap::new();
    for number in 0..PARTS {
        let (_, goldens) = unpack(&std::fs::read(folder.join(format!("all{number}.z")))?)?;
        recorded.extend(goldens.into_iter().map(|golden| (golden.name.clone(), golden)));
    }
    let device = Device::new(Driver::load()?)?;
    let (mut same, mut all) = (0, 0);
    for mode in modes().iter().filter(|mode| mode.name.contains(part)) {
        all += 1;
        let Some(golden) = recorded.get(&mode.name) else {
            println!("{}: not recorded", mode.name);
            continue;
        };
        match run(&device, mode) {
            Err(call) => println!("{}: {call}", mode.name),
            Ok(words) => {
                let found = difference(mode, &words, &golden.words);
                if found.differing == 0 {
                    same += 1;
                    continue;
                }
                println!(
                    "{}: {} of {} differ, largest {:e}",
                    mode.name, found.differing, found.compared, found.largest
                );
                print!("{}", describe(mode, &words, &golden.words, count));
            }
        }
    }
    println!("{same} of {all} modes are the same");
    Ok(())
}

/// Makes a mistake, which loses the device of this process.
fn mistaken(number: &str, folder: &Path) -> Result<(), Box<dyn Error>> {
    let (name, mode, mistake) =
        mistakes().into_iter().nth(number.parse()?).ok_or("no such mistake")?;
    let device = Device::new(Driver::load()?)?;
    let mut file =
        OpenOptions::new().create(true).append(true).open(folder.join("mistakes.txt"))?;
    match run_wrong(&device, &mode, mistake) {
        Ok(words) => {
            let first = &words[..words.len().min(8)];
            writeln!(file, "{name}: 0, {first:x?}")?;
        }
        Err(call) => writeln!(file, "{name}: {call}")?,
    }
    Ok(())
}

fn file(folder: &Path, name: &str, ending: &str) -> PathBuf {
    folder.join(format!("{name}.{ending}"))
}

/// Writes the PTX of each mode, for a compiler to try.
fn texts(folder: &Path) -> Result<(), Box<dyn Error>> {
    std::fs::create_dir_all(folder)?;
    for mode in modes() {
        std::fs::write(file(folder, &mode.name, "ptx"), ptx(&mode))?;
    }
    Ok(())
}

/// Packs every [`PARTS`]th mode.
fn packed(folder: &Path, part: usize) -> Result<(), Box<dyn Error>> {
    let about = std::fs::read_to_string(folder.join("about.txt"))?;
    let mut goldens = Vec::new();
    for mode in modes().into_iter().skip(part).step_by(PARTS) {
        let Ok(bytes) = std::fs::read(file(folder, &mode.name, "bin")) else { continue };
        let words: Vec<u32> = bytes
            .chunks_exact(4)
            .map(|bytes| bytes.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte)))
            .collect();
        let count = words.len() as u32;
        goldens.push(Golden { name: mode.name, count, hash: hash(&words), words });
    }
    let packed = pack(about.trim(), &goldens, usize::MAX)?;
    std::fs::write(folder.join(format!("all{part}.z")), packed)?;
    println!("{} modes in all{part}.z", goldens.len());
    Ok(())
}
