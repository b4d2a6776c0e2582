//! The variables that a module's PTX declares: their list, and how names in C++ find them.

use cuda_sys::{CUdeviceptr, CUresult};
pub use ptx::GlobalKind;
use ptx::GlobalVariable;

use super::global::find;
use super::{Module, ModuleInner};
use crate::error::{Error, Result};

/// A variable of a module; see [`Module::globals`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GlobalInfo {
    /// The name in C++, such as `ns::factor`; of an instance of a template, the name expression that the program was
    /// compiled with, or else the symbol. [`Module::global`] finds the variable by it.
    pub name: String,
    /// The name in the image.
    pub symbol: String,
    /// Where it lies.
    pub kind: GlobalKind,
    /// Its size in bytes.
    pub size: usize,
}

impl Module {
    /// Returns the `__constant__`, `__device__` and `__managed__` variables of the module, in the order of its PTX,
    /// without those that the compiler added. `None` if the module has no PTX, or was loaded
    /// [lazily](Self::load_lazily).
    #[must_use]
    pub fn globals(&self) -> Option<Vec<GlobalInfo>> {
        self.inner.list_variables()
    }
}

impl ModuleInner {
    fn list_variables(&self) -> Option<Vec<GlobalInfo>> {
        let declared = self.variables.declared()?.iter();
        let written = declared.filter(|variable| is_written(variable));
        Some(written.map(|variable| self.describe(variable)).collect())
    }

    fn describe(&self, variable: &GlobalVariable) -> GlobalInfo {
        GlobalInfo {
            name: variable_name(variable, &self.signatures.lowered),
            symbol: variable.name.clone(),
            kind: variable.kind,
            size: usize::try_from(variable.size).unwrap_or(usize::MAX),
        }
    }

    /// Returns the declaration of a variable in the module's PTX, by its name in the image.
    pub(super) fn declaration(&self, symbol: &str) -> Option<&GlobalVariable> {
        self.variables.declared()?.iter().find(|variable| variable.name == symbol)
    }

    /// Returns the name in the image of the variable `name`, which is that name, a name expression that the program was
    /// compiled with, or a name in C++. A name that is none of these is returned unchanged.
    ///
    /// # Errors
    /// Several variables have the name.
    pub(super) fn variable_symbol<'a>(&'a self, name: &'a str) -> Result<&'a str> {
        let declared = self.variables.declared().unwrap_or_default();
        variable_symbol(name, declared, &self.signatures.lowered)
    }

    /// Returns the name in the image of the variable `name`, where it lies, and its size in bytes.
    ///
    /// # Errors
    /// As [`variable_symbol`](Self::variable_symbol) and [`find`]. That there is none has a list of those that exist.
    pub(super) fn locate<'a>(&'a self, name: &'a str) -> Result<(&'a str, CUdeviceptr, usize)> {
        let symbol = self.variable_symbol(name)?;
        let (address, bytes) = find(self, symbol).map_err(|error| {
            if error.code() != Some(CUresult::CUDA_ERROR_NOT_FOUND) {
                return error;
            }
            let error = error.with_asked(format!("global `{name}`"));
            let Some(all) = self.list_variables() else { return error };
            let names: Vec<String> = all.into_iter().map(|variable| variable.name).collect();
            match names.is_empty() {
                true => error.with_hint("the module has no variables"),
                false => error.with_hint(format!("the module has {}", names.join(", "))),
            }
        })?;
        Ok((symbol, address, bytes))
    }
}

/// Returns the name in the image of the variable `name`, of those that are `declared`. `lowered` has name expressions
/// with their names in the image. A name that is none of these is returned without its `&`.
///
/// # Errors
/// Several variables have the name.
pub(super) fn variable_symbol<'a>(
    name: &'a str,
    declared: &'a [GlobalVariable],
    lowered: &'a [(String, String)],
) -> Result<&'a str> {
    let name = name.strip_prefix('&').unwrap_or(name);
    if declared.iter().any(|variable| variable.name == name) {
        return Ok(name);
    }
    let is_expression =
        |expression: &str| expression.strip_prefix('&').unwrap_or(expression) == name;
    if let Some((_, lowered)) = lowered.iter().find(|(it, _)| is_expression(it)) {
        return Ok(lowered);
    }
    let mut named =
        declared.iter().filter(|it| ptx::mangled::variable(&it.name).as_deref() == Some(name));
    match (named.next(), named.next()) {
        (Some(only), None) => Ok(&only.name),
        (Some(first), Some(second)) => {
            Err(Error::invalid(format!("several variables are called `{name}`"))
                .with_hint(format!("name one by its symbol: {}, {}", first.name, second.name)))
        }
        (None, _) => Ok(name),
    }
}

/// Returns the name of a variable in C++ for a list: that of an instance of a template is the name expression that the
/// program was compiled with.
pub(super) fn variable_name(variable: &GlobalVariable, lowered: &[(String, String)]) -> String {
    let symbol = &variable.name;
    let expression = || {
        let (expression, _) = lowered.iter().find(|(_, lowered)| lowered == symbol)?;
        Some(expression.trim_start_matches('&').to_owned())
    };
    ptx::mangled::variable(symbol).or_else(expression).unwrap_or_else(|| symbol.clone())
}

/// Returns whether the program wrote the variable: the compiler's own, such as texts that are printed, begin with `$`.
pub(super) fn is_written(variable: &GlobalVariable) -> bool {
    !variable.name.starts_with('$')
}
