//! Searches a throw that hits, by L-BFGS from argmin.

use std::cell::RefCell;
use std::rc::Rc;

use argmin::core::observers::{Observe, ObserverMode};
use argmin::core::{CostFunction, Error, Executor, Gradient, IterState, KV, State};
use argmin::solver::linesearch::MoreThuenteLineSearch;
use argmin::solver::quasinewton::LBFGS;

use crate::flight::Flight;

/// Steps of the search, and gradients that it remembers.
const MOST_ITERATIONS: u64 = 100;
const MEMORY: usize = 5;

/// A throw that the search has come to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Throw {
    pub(crate) velocity: [f64; 2],
    pub(crate) loss: f64,
}

/// The objective.
struct Miss<'a>(RefCell<&'a mut Flight>);

fn velocity(param: &[f64]) -> Result<[f64; 2], Error> {
    Ok(param.try_into()?)
}

impl CostFunction for Miss<'_> {
    type Param = Vec<f64>;
    type Output = f64;

    fn cost(&self, param: &Vec<f64>) -> Result<f64, Error> {
        Ok(self.0.borrow_mut().loss(velocity(param)?)?)
    }
}

impl Gradient for Miss<'_> {
    type Param = Vec<f64>;
    type Gradient = Vec<f64>;

    fn gradient(&self, param: &Vec<f64>) -> Result<Vec<f64>, Error> {
        Ok(self.0.borrow_mut().gradient(velocity(param)?)?.to_vec())
    }
}

/// Prints each iteration and keeps it.
struct Log(Rc<RefCell<Vec<Throw>>>);

type Iteration = IterState<Vec<f64>, Vec<f64>, (), (), (), f64>;

impl Log {
    fn note(&mut self, state: &Iteration) -> Result<(), Error> {
        let Some(param) = state.get_param() else { return Ok(()) };
        let throw = Throw { velocity: velocity(param)?, loss: state.get_cost() };
        let mut throws = self.0.borrow_mut();
        let ([vx, vy], loss) = (throw.velocity, throw.loss);
        println!("{:9}  {loss:12.4e}  {:8.5}  {vx:8.4} {vy:8.4}", throws.len(), loss.sqrt());
        throws.push(throw);
        Ok(())
    }
}

impl Observe<Iteration> for Log {
    fn observe_init(&mut self, _: &str, state: &Iteration, _: &KV) -> Result<(), Error> {
        println!("iteration          loss      miss  velocity");
        self.note(state)
    }

    fn observe_iter(&mut self, state: &Iteration, _: &KV) -> Result<(), Error> {
        self.note(state)
    }
}

/// Throws from `first` on until the loss is at most `enough`, or the search has come to its end.
///
/// # Errors
/// The error that the search or the driver returns.
pub(crate) fn search(
    flight: &mut Flight,
    first: [f64; 2],
    enough: f64,
) -> Result<Vec<Throw>, Error> {
    let throws = Rc::new(RefCell::new(Vec::new()));
    let solver = LBFGS::new(MoreThuenteLineSearch::new(), MEMORY);
    let done = Executor::new(Miss(RefCell::new(flight)), solver)
        .configure(|state| {
            state.param(first.to_vec()).max_iters(MOST_ITERATIONS).target_cost(enough)
        })
        .add_observer(Log(throws.clone()), ObserverMode::Always)
        .run()?;
    println!("{}", done.state.get_termination_status());
    Ok(throws.take())
}
