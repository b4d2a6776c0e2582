//! How a ball must be thrown that flies through the air, and bounces off the ground and a wall, to be at a
//! target at the end: by gradients through the whole flight, and L-BFGS.

use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

use clap::Parser;
use example_common::save;

mod ball;
mod check;
mod flight;
mod picture;
mod search;

use ball::World;
use flight::{Flight, Setting};

/// Searches for the throw by which a ball hits a target, by way of a wall.
#[derive(Parser)]
struct Arguments {
    /// How the ball is thrown first, in metres a second to the right and upwards
    #[arg(long, num_args = 2, value_names = ["X", "Y"], default_values_t = [3.0, 3.0],
        allow_negative_numbers = true)]
    velocity: Vec<f64>,
    /// The target, in metres to the right of the origin and above the ground
    #[arg(long, num_args = 2, value_names = ["X", "Y"], default_values_t = [1.5, 1.1],
        allow_negative_numbers = true)]
    target: Vec<f32>,
    /// The size of the picture
    #[arg(long, num_args = 2, value_names = ["WIDTH", "HEIGHT"], default_values_t = [1920, 1080],
        value_parser = clap::value_parser!(u32).range(64..=16384))]
    size: Vec<u32>,
    /// The picture
    #[arg(long, default_value = "target/trajectory/trajectory.png")]
    output: PathBuf,
}

/// A rubber ball.
const WORLD: World =
    World { gravity: 9.81, drag: 0.02, radius: 0.1, wall: 4.0, bounce: 0.85, slide: 0.92 };

/// The requirements: the ratio of the final loss to the initial one, unless that was small, and metres from the target.
const LOSS_DOWN_BY: f64 = 1e6;
const MOST_OFF: f64 = 1e-3;
/// The search ends at this loss, which floats still resolve.
const ENOUGH: f64 = 1e-9;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    let context = example_common::context();
    let device = context.device().name()?;
    println!("device: {device}");
    let (&[vx, vy], &[x, y], &[width, height]) =
        (&arguments.velocity[..], &arguments.target[..], &arguments.size[..])
    else {
        return Err("a velocity, a target and a size are two numbers each".into());
    };
    let setting =
        Setting { world: WORLD, start: [0.5, 1.0], target: [x, y], seconds: 1.6, steps: 500 };
    let mut flight = Flight::new(&context, &setting)?;
    check::end(&setting, &mut flight, [vx, vy])?;
    check::gradient(&setting, &mut flight, [vx, vy])?;
    println!("the first throw ends where it does in f64, with the gradient by central differences");

    let begin = Instant::now();
    let throws = search::search(&mut flight, [vx, vy], ENOUGH)?;
    let took = match device.contains("software") {
        true => String::new(),
        false => format!(" in {:.1} ms", begin.elapsed().as_secs_f64() * 1e3),
    };
    println!("searched{took}, by flights of {} steps, forwards and back", setting.steps);

    let paths = throws.iter().map(|throw| flight.path(throw.velocity));
    let paths = paths.collect::<Result<Vec<_>, _>>()?;
    save(&arguments.output, [width, height], &picture::draw(&setting, &paths, [width, height]))?;

    let (Some(first), Some(last), Some(path)) = (throws.first(), throws.last(), paths.last())
    else {
        return Err("the search has not begun".into());
    };
    let end = path.last().map_or([f32::NAN; 2], |end| *end);
    let off = f64::from(end[0] - x).hypot(f64::from(end[1] - y));
    let down = first.loss / last.loss;
    println!("the loss is down by {down:.1e}, the ball {:.3} mm from the target", off * 1e3);
    // So written that a NaN has not converged.
    if !((down >= LOSS_DOWN_BY || last.loss <= ENOUGH) && off <= MOST_OFF) {
        return Err("the search has not converged".into());
    }
    check::end(&setting, &mut flight, last.velocity)
}
