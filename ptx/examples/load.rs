//! Reads PTX files, prints them and reads that again; says how fast: `load FILE…`.

use std::time::Instant;

use ptx::ir::{Module, Op};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut bytes, mut failed, mut instrs) = (0, 0, 0);
    let (mut reading, mut graphs) = (0.0, 0.0);
    for path in std::env::args().skip(1) {
        let text = std::fs::read_to_string(&path)?;
        let start = Instant::now();
        let read = ptx::parse(&text);
        reading += start.elapsed().as_secs_f64();
        bytes += text.len();
        match read {
            Ok(mut module) => {
                let start = Instant::now();
                for function in &module.functions {
                    std::hint::black_box(ptx::cfg::Cfg::new(&module, function));
                    instrs += function.instrs().len();
                }
                graphs += start.elapsed().as_secs_f64();
                not_taken_apart(&path, &text, &module);
                let again = ptx::parse(&module.to_string());
                module.forget_lines();
                match again {
                    Ok(mut again) => {
                        again.forget_lines();
                        if again != module {
                            failed += 1;
                            println!("{path}: printed, it reads as something else");
                        }
                    }
                    Err(error) => {
                        failed += 1;
                        println!("{path}: printed, it cannot be read: {error}");
                    }
                }
            }
            Err(error) => {
                failed += 1;
                println!("{path}: {error}");
            }
        }
    }
    println!(
        "{bytes} bytes, {instrs} instructions: read in {:.1} ms, graphs {:.1} ms; {failed} failed",
        reading * 1e3,
        graphs * 1e3
    );
    Ok(())
}

fn not_taken_apart(path: &str, text: &str, module: &Module) {
    for instr in module.functions.iter().flat_map(|f| f.instrs()) {
        if let Op::Other { opcode, .. } = &instr.op {
            let line = text.lines().nth((instr.line as usize).saturating_sub(1));
            println!("{path}: not taken apart: {opcode}: {}", line.unwrap_or_default().trim());
        }
    }
}
