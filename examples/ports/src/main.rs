//! Runs the ports that are named, or all: `ports [NAME…]`.

use std::error::Error;

use cuda_safe::Context;
use ports::{PORTS, digest};

fn main() -> Result<(), Box<dyn Error>> {
    let names: Vec<String> = std::env::args().skip(1).collect();
    if let Some(unknown) = names.iter().find(|name| PORTS.iter().all(|(port, _)| port != name)) {
        return Err(format!("there is no port {unknown}").into());
    }
    let context = Context::new(0)?;
    for (name, run) in PORTS {
        if names.is_empty() || names.iter().any(|asked| asked == name) {
            println!("{name}: {}", digest(&run(&context)?));
        }
    }
    Ok(())
}
