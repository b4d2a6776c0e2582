//! How many generated programs are compared.

pub(crate) fn count(otherwise: u64) -> u64 {
    number_of("PTX_AD_PROGRAMS", otherwise)
}

/// The number in an environment variable.
pub(crate) fn number_of(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|n| n.parse().ok()).unwrap_or(otherwise)
}
