//! The field with the surface, and its place.

use geom_kernels::volume::nanovdb::{Grid, ValueType};

/// A volume's field, and the value that is looked for.
pub(crate) struct Field {
    pub(crate) iso: f32,
    /// Whether numbers are greater inside, as those of fog. Around the grid is outside.
    pub(crate) is_greater_inside: bool,
    /// The box of active voxels, with one more all around: the surface is closed in it.
    pub(crate) origin: [i32; 3],
    pub(crate) dims: [usize; 3],
}

impl Field {
    /// Of a grid of f32.
    ///
    /// # Errors
    /// There are no active voxels, or no such numbers.
    pub(crate) fn new(grid: &Grid, iso: f32) -> Result<Self, Box<dyn std::error::Error>> {
        let around: f32 = grid.get([i32::MAX; 3])?;
        let voxels = grid.index_box().ok_or("a grid without active voxels")?;
        Ok(Self {
            iso,
            is_greater_inside: around < iso,
            origin: voxels.min.map(|x| x.saturating_sub(1)),
            dims: voxels.dims().map(|n| n as usize + 2),
        })
    }

    pub(crate) fn is_inside(&self, number: f64) -> bool {
        let iso = f64::from(self.iso);
        if self.is_greater_inside { number > iso } else { number < iso }
    }
}

/// The grid of a name, or the first with a surface.
///
/// # Errors
/// There is none.
pub(crate) fn choose(grids: Vec<Grid>, name: Option<&str>) -> Result<Grid, String> {
    let said: Vec<String> =
        grids.iter().map(|grid| format!("{:?} ({})", grid.name(), grid.value_type())).collect();
    let is_wanted = |grid: &Grid| {
        grid.value_type() == ValueType::F32 && name.is_none_or(|name| grid.name() == name)
    };
    let chosen = grids.into_iter().find(is_wanted);
    chosen.ok_or_else(|| format!("no such grid of f32; there are: {}", said.join(", ")))
}

#[cfg(test)]
mod tests {
    use geom_kernels::volume::nanovdb::Builder;

    use super::*;

    #[test]
    fn grids_are_chosen_by_name_and_type() {
        let distances = |name| Builder::<f32>::new(1.0).name(name).set([0; 3], 0.0).build();
        let grids = || {
            vec![
                Builder::<f64>::new(0.0).name("f64").build().unwrap(),
                distances("a").unwrap(),
                distances("b").unwrap(),
            ]
        };
        assert_eq!(choose(grids(), None).unwrap().name(), "a");
        assert_eq!(choose(grids(), Some("b")).unwrap().name(), "b");
        assert!(choose(grids(), Some("f64")).unwrap_err().contains("\"b\" (float)"));
        assert!(choose(Vec::new(), None).is_err());
        let empty = Builder::<f32>::new(1.0).build().unwrap();
        assert!(Field::new(&empty, 0.0).is_err());
        assert!(Field::new(&grids()[0], 0.0).is_err());
    }
}
