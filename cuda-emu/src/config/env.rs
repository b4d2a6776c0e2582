//! The configuration by environment variables.

use std::path::PathBuf;
use std::time::Duration;

use cuda_sys::CUresult;

use super::{Checks, Config, Contraction, Failure, MAX_DEVICES, MAX_MULTIPROCESSORS};
use crate::profile::Profile;

impl Config {
    /// Returns the defaults, changed by the variables `CUDA_EMU_DEVICE` (a [`Profile`]'s name), `_DEVICES`, `_CC` (`9.0`),
    /// `_PTX` (`9.0`), `_MULTIPROCESSORS`, `_WORKERS`, `_TIMEOUT_MS`, `_SEED`, `_FAIL` (`name:n:code`, several
    /// with commas), `_LOG` (a file), `_CONTRACT` (`never` or `always`), `_CHECK` (`race`, `init`,
    /// `leak`, or several with commas), `_TANGENTS` (`0` or `1`), `_REPORT` (a folder), `_TAINT` (`0` or `1`), `_MEMORY`, `_HEAP` and `_STACK` (bytes; `K`, `M` and `G`
    /// multiply by powers of 1024). A value that cannot be read is reported on standard error and
    /// changes nothing.
    #[must_use]
    pub fn from_env() -> Self {
        let mut config = Self::default();
        let profiles = format!("; known are {}", Profile::ALL.map(Profile::name).join(", "));
        let mut read = |name: &str, apply: &mut dyn FnMut(&mut Self, &str) -> Option<()>| {
            let Some(value) = cuda_sys::environment(name) else { return };
            let value = value.to_string_lossy();
            if !value.is_empty() && apply(&mut config, value.trim()).is_none() {
                let known = match name {
                    "CUDA_EMU_DEVICE" => &profiles,
                    "CUDA_EMU_CHECK" => "; known are race, init and leak, several with commas",
                    "CUDA_EMU_CONTRACT" => "; known are never and always",
                    "CUDA_EMU_TANGENTS" | "CUDA_EMU_TAINT" => "; known are 0 and 1",
                    _ => "",
                };
                eprintln!("cuda-emu: {name}={value} is not understood and is ignored{known}");
            }
        };
        // Before the variables that change parts of a profile.
        read("CUDA_EMU_DEVICE", &mut |config, text| {
            *config = config.clone().device(Profile::by_name(text)?);
            Some(())
        });
        read("CUDA_EMU_PTX", &mut |config, text| {
            let (major, minor) = text.split_once('.')?;
            config.ptx_isa = (major.parse().ok()?, minor.parse().ok()?);
            Some(())
        });
        read("CUDA_EMU_DEVICES", &mut |config, text| {
            config.devices = text.parse().ok().filter(|count| *count <= MAX_DEVICES)?;
            Some(())
        });
        read("CUDA_EMU_CC", &mut |config, text| {
            let (major, minor) = text.split_once('.')?;
            config.compute_capability = (major.parse().ok()?, minor.parse().ok()?);
            Some(())
        });
        read("CUDA_EMU_WORKERS", &mut |config, text| {
            config.workers = text.parse().ok().filter(|count| *count > 0)?;
            Some(())
        });
        read("CUDA_EMU_TIMEOUT_MS", &mut |config, text| {
            let limit = text.parse().ok()?;
            config.timeout = (limit > 0).then(|| Duration::from_millis(limit));
            Some(())
        });
        read("CUDA_EMU_SEED", &mut |config, text| {
            config.seed = Some(text.parse().ok()?);
            Some(())
        });
        read("CUDA_EMU_FAIL", &mut |config, text| {
            config.failures = text.split(',').map(failure).collect::<Option<_>>()?;
            Some(())
        });
        read("CUDA_EMU_LOG", &mut |config, text| {
            config.log = Some(PathBuf::from(text));
            Some(())
        });
        read("CUDA_EMU_MEMORY", &mut |config, text| {
            config.memory = bytes(text).filter(|bytes| *bytes > 0)?;
            Some(())
        });
        read("CUDA_EMU_MULTIPROCESSORS", &mut |config, text| {
            config.multiprocessors =
                text.parse().ok().filter(|count| (1..=MAX_MULTIPROCESSORS).contains(count))?;
            Some(())
        });
        read("CUDA_EMU_HEAP", &mut |config, text| {
            config.heap = bytes(text)?;
            Some(())
        });
        read("CUDA_EMU_STACK", &mut |config, text| {
            config.stack = u32::try_from(bytes(text)?).ok()?;
            Some(())
        });
        read("CUDA_EMU_CONTRACT", &mut |config, text| {
            config.contraction = contraction(text)?;
            Some(())
        });
        read("CUDA_EMU_CHECK", &mut |config, text| {
            config.checks = checks(text)?;
            Some(())
        });
        read("CUDA_EMU_TANGENTS", &mut |config, text| {
            config.tangents = switch(text)?;
            Some(())
        });
        read("CUDA_EMU_REPORT", &mut |config, text| {
            *config = config.clone().report_to(text);
            Some(())
        });
        read("CUDA_EMU_TAINT", &mut |config, text| {
            *config = config.clone().taint(switch(text)?);
            Some(())
        });
        config
    }
}

/// `never` or `always`.
fn contraction(text: &str) -> Option<Contraction> {
    match text {
        "never" => Some(Contraction::Never),
        "always" => Some(Contraction::Always),
        _ => None,
    }
}

/// `0` or `1`.
fn switch(text: &str) -> Option<bool> {
    match text {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

/// `race`, `init`, `leak`, or several with commas.
fn checks(text: &str) -> Option<Checks> {
    text.split(',').try_fold(Checks::default(), |all, word| match word {
        "race" => Some(Checks { race: true, ..all }),
        "init" => Some(Checks { init: true, ..all }),
        "leak" => Some(Checks { leak: true, ..all }),
        _ => None,
    })
}

/// `name:n:code`.
fn failure(text: &str) -> Option<Failure> {
    let mut parts = text.split(':');
    let (name, nth, code) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || name.is_empty() {
        return None;
    }
    let code = match code.parse() {
        Ok(number) => CUresult(number),
        Err(_) => *CUresult::ALL.iter().find(|known| known.name() == Some(code))?,
    };
    Some(Failure { name: name.to_owned(), nth: nth.parse().ok()?, code })
}

/// Returns a number of bytes, perhaps with a unit.
fn bytes(text: &str) -> Option<u64> {
    let (digits, unit) = match text.char_indices().last()? {
        (at, 'k' | 'K') => (&text[..at], 10),
        (at, 'm' | 'M') => (&text[..at], 20),
        (at, 'g' | 'G') => (&text[..at], 30),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << unit)
}

#[cfg(test)]
mod tests {
    use super::{
        CUresult, Checks, Contraction, Failure, bytes, checks, contraction, failure, switch,
    };

    #[test]
    fn sizes_have_units() {
        assert_eq!(bytes("123"), Some(123));
        assert_eq!(bytes("4K"), Some(4096));
        assert_eq!(bytes("2g"), Some(2 << 30));
        for wrong in ["", "K", "-1", "1T", "99999999999999999999", "18014398509481984K"] {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn failures_name_a_call_and_a_code() {
        let code = CUresult::CUDA_ERROR_OUT_OF_MEMORY;
        let wanted = Failure { name: "cuMemAlloc".to_owned(), nth: 3, code };
        assert_eq!(failure("cuMemAlloc:3:2").as_ref(), Some(&wanted));
        assert_eq!(failure("cuMemAlloc:3:CUDA_ERROR_OUT_OF_MEMORY"), Some(wanted));
        for wrong in ["", "cuMemAlloc", "cuMemAlloc:3", "a:b:c", ":1:2", "a:1:2:3", "a:1:WHAT"] {
            assert_eq!(failure(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn contraction_has_two_words() {
        assert_eq!(contraction("never"), Some(Contraction::Never));
        assert_eq!(contraction("always"), Some(Contraction::Always));
        assert_eq!(contraction("Always"), None);
    }

    #[test]
    fn checks_are_named() {
        let all = Checks { race: true, init: true, leak: true };
        assert_eq!(checks("race"), Some(Checks { race: true, ..Checks::default() }));
        assert_eq!(checks("init,race"), Some(Checks { leak: false, ..all }));
        assert_eq!(checks("leak,race,init"), Some(all));
        for wrong in ["", "race,", "leaks", "race init"] {
            assert_eq!(checks(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_switch_is_0_or_1() {
        assert_eq!((switch("0"), switch("1")), (Some(false), Some(true)));
        assert_eq!((switch(""), switch("yes")), (None, None));
    }
}
