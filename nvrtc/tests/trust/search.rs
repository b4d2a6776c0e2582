//! The search for NVRTC: the files that it loads, and those that it must not touch.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use crate::attack::{MALLORY, Stage, alone, python, share};
use crate::{Needs, Outcome, Test};

pub(crate) const TESTS: &[Test] = &[
    ("python_imports_nothing_from_the_current_folder", Needs::Python, python_imports),
    ("no_python_of_the_current_folder_is_started", Needs::Bare, python_of_the_current_folder),
    ("no_python_that_others_may_replace_is_started", Needs::Bare, python_that_others_may_replace),
    ("a_setup_folder_above_the_program_is_found", Needs::Bare, setup_above_the_program),
    ("a_setup_folder_above_the_current_folder_is_not", Needs::Bare, setup_above_the_current_folder),
    ("a_setup_folder_that_is_named_is_found", Needs::Bare, setup_named),
    ("an_error_says_which_variables_are_not_set", Needs::Bare, not_set),
    ("an_error_says_that_a_named_folder_holds_no_nvrtc", Needs::Bare, holds_none),
    ("no_step_may_be_writable_by_others", Needs::Bare, steps_writable_by_others),
    ("no_step_may_be_writable_by_another_group", Needs::BareAndRoot, steps_writable_by_a_group),
    ("no_step_may_belong_to_another_user", Needs::BareAndRoot, steps_of_another_user),
    ("a_link_to_a_folder_with_another_users_library_is_refused", Needs::BareAndRoot, setup_link),
    ("links_of_the_user_are_followed", Needs::Bare, links_are_followed),
    ("a_file_in_a_sticky_folder_is_refused", Needs::Bare, sticky),
    ("a_virtual_environment_that_others_may_write_is_refused", Needs::Bare, environment),
    ("what_a_variable_names_is_loaded", Needs::Root, named),
    ("relative_entries_of_search_paths_are_skipped", Needs::Bare, relative_entries),
    ("a_program_with_raised_rights_reads_no_variable", Needs::Root, raised_rights),
];

const PACKAGE: &str = "target/cuda/nvidia-cuda-nvrtc-13.0.88/nvidia/cu13/lib";

fn clean(text: &str) -> Outcome {
    let end = text.lines().last();
    if end == Some("clean") { Ok(()) } else { Err(format!("loaded: {text}").into()) }
}

fn loaded(text: &str, what: &str) -> Outcome {
    let good = text.lines().last() == Some("loaded") && !text.starts_with("error");
    if good { Ok(()) } else { Err(format!("{what}: not loaded: {text}").into()) }
}

/// The folder of this machine's python3, then those of the tools that a shim of it starts.
fn path_with_python() -> Result<std::ffi::OsString, Box<dyn std::error::Error>> {
    let python = python().ok_or("no python3")?;
    let folder = python.parent().ok_or("no folder")?.as_os_str().to_owned();
    let folders = [folder.as_os_str(), OsStr::new("/usr/bin"), OsStr::new("/bin")];
    Ok(std::env::join_paths(folders)?)
}

fn python_imports() -> Outcome {
    let stage = Stage::new()?;
    let ran = stage.path("ran");
    for module in ["sysconfig", "site", "os", "sitecustomize", "usercustomize"] {
        let text = format!("open({:?}, 'a').write('{module}\\n')\n", ran.display().to_string());
        stage.file(&format!("here/{module}.py"), &text, 0o644)?;
    }
    let path = path_with_python()?;
    stage.run("load", &[("PATH", &path)])?;
    if ran.exists() {
        return Err(format!("imported: {}", fs::read_to_string(ran)?).into());
    }
    Ok(())
}

fn python_of_the_current_folder() -> Outcome {
    let stage = Stage::new()?;
    let ran = stage.path("ran");
    let script = format!("#!/bin/sh\necho ran > {}\n", ran.display());
    stage.folder("here/tools")?;
    stage.file("here/python3", &script, 0o755)?;
    stage.file("here/tools/python3", &script, 0o755)?;
    for path in ["", ".", "tools", ":/usr/bin", "/nonexistent:", "./tools:/nonexistent"] {
        stage.run("load", &[("PATH", path.as_ref())])?;
        if ran.exists() {
            return Err(format!("PATH={path:?} starts ./python3").into());
        }
    }
    Ok(())
}

/// A python3 of the user is started, and the library that it names is found; a python3 that others may replace is not
/// started.
fn python_that_others_may_replace() -> Outcome {
    let stage = Stage::new()?;
    stage.nvrtc("site/nvidia/cu13/lib")?;
    stage.folder("tools")?;
    let site = stage.path("site");
    let script = format!("#!/bin/sh\necho {}\n", site.display());
    stage.file("tools/python3", &script, 0o755)?;
    let path = stage.path("tools");
    loaded(&stage.run("load", &[("PATH", path.as_os_str())])?, "the user's own")?;
    for (name, mode) in [("tools", 0o777), ("tools/python3", 0o757), ("site", 0o777)] {
        stage.mode(name, mode)?;
        let text = stage.run("load", &[("PATH", path.as_os_str())])?;
        clean(&text)?;
        assert!(text.contains("others may write to"), "{text}");
        stage.mode(name, 0o755)?;
    }
    // A script in place of Python starts nothing from a folder that others may write to.
    let ran = stage.path("ran");
    stage.folder("open")?;
    stage.file("open/helper", &format!("#!/bin/sh\necho ran > {}\n", ran.display()), 0o755)?;
    stage.file("tools/python3", &format!("#!/bin/sh\nhelper\necho {}\n", site.display()), 0o755)?;
    let both = std::env::join_paths([stage.path("open"), path])?;
    loaded(&stage.run("load", &[("PATH", &both)])?, "the script")?;
    assert!(fs::remove_file(&ran).is_ok(), "the script starts its helper");
    stage.mode("open", 0o777)?;
    loaded(&stage.run("load", &[("PATH", &both)])?, "the script")?;
    if ran.exists() { Err("a helper of another's was started".into()) } else { Ok(()) }
}

fn setup_above_the_program() -> Outcome {
    let stage = Stage::new()?;
    stage.nvrtc(PACKAGE)?;
    loaded(&stage.run("load", &[])?, "above the program")
}

fn setup_above_the_current_folder() -> Outcome {
    let stage = Stage::new()?;
    stage.nvrtc(&format!("here/{PACKAGE}"))?;
    clean(&stage.run("load", &[])?)
}

fn setup_named() -> Outcome {
    let stage = Stage::new()?;
    stage.nvrtc(&format!("elsewhere/{PACKAGE}"))?;
    let folder = stage.path("elsewhere/target/cuda");
    loaded(&stage.run("load", &[("CUDA_SETUP_DIR", folder.as_os_str())])?, "named")?;
    let relative = OsStr::new("../elsewhere/target/cuda");
    loaded(&stage.run("load", &[("CUDA_SETUP_DIR", relative)])?, "named by a relative path")
}

/// Returns an error unless each of `lines` is a line of the text.
fn has_lines(text: &str, lines: &[String]) -> Outcome {
    match lines.iter().find(|line| !text.lines().any(|other| other.trim() == **line)) {
        Some(line) => Err(format!("no line {line:?}: {text}").into()),
        None => Ok(()),
    }
}

fn not_set() -> Outcome {
    let stage = Stage::new()?;
    let text = stage.run("load", &[])?;
    clean(&text)?;
    let lines = [
        "CUDA_PATH, CUDA_HOME: not set",
        "VIRTUAL_ENV, CONDA_PREFIX: not set",
        "CUDA_SETUP_DIR, target/cuda: not set, and not above the program",
    ];
    has_lines(&text, &lines.map(str::to_owned))?;
    // An empty variable is one that is not set.
    let empty = ["CUDA_PATH", "VIRTUAL_ENV", "CUDA_SETUP_DIR"].map(|name| (name, OsStr::new("")));
    has_lines(&stage.run("load", &empty)?, &lines.map(str::to_owned))
}

fn holds_none() -> Outcome {
    let stage = Stage::new()?;
    stage.nvrtc(&format!("elsewhere/{PACKAGE}"))?;
    // Four folders above it are searched for a hint, and those above the stage are the machine's.
    const EMPTY: &str = "a/b/c/d/empty";
    for folder in ["toolkit/lib64", "venv/lib", EMPTY] {
        stage.folder(folder)?;
    }
    let [toolkit, venv, empty] = ["toolkit", "venv", EMPTY].map(|name| stage.path(name));
    let (above, right) = (stage.path("elsewhere/target"), stage.path("elsewhere/target/cuda"));
    let text = stage.run(
        "load",
        &[
            ("CUDA_HOME", toolkit.as_os_str()),
            ("VIRTUAL_ENV", venv.as_os_str()),
            ("CUDA_SETUP_DIR", empty.as_os_str()),
        ],
    )?;
    clean(&text)?;
    has_lines(
        &text,
        &[
            format!("CUDA_PATH, CUDA_HOME: {}/lib64: holds no NVRTC", toolkit.display()),
            format!("VIRTUAL_ENV, CONDA_PREFIX: {}/lib: holds no NVRTC", venv.display()),
            format!("CUDA_SETUP_DIR, target/cuda: {}: holds no NVRTC", empty.display()),
        ],
    )?;
    // A folder above the right one, as `target` is, and one below it. What the error names is found.
    let package = right.join("nvidia-cuda-nvrtc-13.0.88");
    for (other, right) in [(above, &right), (package.join("nvidia"), &package)] {
        let text = stage.run("load", &[("CUDA_SETUP_DIR", other.as_os_str())])?;
        let (other, name) = (other.display(), right.display());
        let line = format!(
            "CUDA_SETUP_DIR, target/cuda: {other}: holds no NVRTC, but {name} does: name that"
        );
        has_lines(&text, &[line])?;
        loaded(&stage.run("load", &[("CUDA_SETUP_DIR", right.as_os_str())])?, "what is named")?;
    }
    let none = stage.path("nowhere");
    let text = stage.run("load", &[("CUDA_SETUP_DIR", none.as_os_str())])?;
    has_lines(
        &text,
        &[format!("CUDA_SETUP_DIR, target/cuda: {}: no such folder", none.display())],
    )?;
    let text = stage.run("load", &[("CUDA_NVRTC", empty.as_os_str())])?;
    has_lines(&text, &[format!("CUDA_NVRTC: {}: holds no NVRTC", empty.display())])
}

/// Every step below the stage, the library and its builtins' folder included.
fn steps() -> Vec<String> {
    let mut steps = vec![String::new()];
    let mut step = String::new();
    for part in PACKAGE.split('/').chain(["libnvrtc.so.13"]) {
        if !step.is_empty() {
            step.push('/');
        }
        step.push_str(part);
        steps.push(step.clone());
    }
    steps
}

fn steps_writable_by_others() -> Outcome {
    let stage = Stage::new()?;
    stage.nvrtc(PACKAGE)?;
    for step in steps() {
        stage.mode(&step, 0o757)?;
        let text = stage.run("load", &[])?;
        clean(&text).map_err(|error| format!("{step:?}: {error}"))?;
        assert!(text.contains("others may write to"), "{text}");
        stage.mode(&step, 0o755)?;
        loaded(&stage.run("load", &[])?, &step)?;
    }
    Ok(())
}

fn steps_writable_by_a_group() -> Outcome {
    let stage = Stage::new()?;
    stage.nvrtc(PACKAGE)?;
    for step in steps() {
        share(&stage.path(&step), MALLORY)?;
        let text = stage.run("load", &[])?;
        clean(&text).map_err(|error| format!("{step:?}: {error}"))?;
        assert!(text.contains("group 65534 may write to"), "{text}");
        stage.mode(&step, 0o755)?;
        loaded(&stage.run("load", &[])?, &step)?;
    }
    Ok(())
}

fn steps_of_another_user() -> Outcome {
    // As root, then as a user who is neither root nor the owner.
    for user in [0, 12345] {
        let stage = Stage::new()?.run_by(user);
        stage.nvrtc(PACKAGE)?;
        for step in steps() {
            let path = stage.path(&step);
            std::os::unix::fs::chown(&path, Some(MALLORY), None)?;
            let text = stage.run("load", &[])?;
            clean(&text).map_err(|error| format!("user {user}, {step:?}: {error}"))?;
            assert!(text.contains("belongs to user 65534"), "{text}");
            for owner in [0, user] {
                std::os::unix::fs::chown(&path, Some(owner), None)?;
                loaded(&stage.run("load", &[])?, &step)?;
            }
            std::os::unix::fs::chown(&path, Some(0), None)?;
        }
    }
    Ok(())
}

/// Another user's `target/cuda` links to a folder of root's that has that user's home in it.
fn setup_link() -> Outcome {
    let stage = Stage::new()?;
    stage.nvrtc("homes/mallory/nvidia/cu13/lib")?;
    stage.folder("target")?;
    symlink(stage.path("homes"), stage.path("target/cuda"))?;
    stage.give("homes/mallory", MALLORY)?;
    for owner in [0, MALLORY] {
        stage.give("target", owner)?;
        let text = stage.run("load", &[])?;
        clean(&text)?;
        assert!(text.contains("belongs to user 65534"), "{text}");
    }
    // The same by the current folder, as the search once went.
    let stage = Stage::new()?;
    stage.nvrtc("homes/mallory/nvidia/cu13/lib")?;
    stage.folder("here/target")?;
    symlink(stage.path("homes"), stage.path("here/target/cuda"))?;
    stage.give("homes/mallory", MALLORY)?;
    stage.give("here/target", MALLORY)?;
    clean(&stage.run("load", &[])?)
}

fn links_are_followed() -> Outcome {
    let stage = Stage::new()?;
    stage.nvrtc("store/nvidia-cuda-nvrtc-13.0.88/nvidia/cu13/lib")?;
    stage.folder("target")?;
    symlink("../links/one", stage.path("target/cuda"))?;
    stage.folder("links")?;
    symlink(stage.path("links/two"), stage.path("links/one"))?;
    symlink("../store/../store", stage.path("links/two"))?;
    loaded(&stage.run("load", &[])?, "by links")?;
    // Each folder that a link lies in is a step.
    stage.mode("links", 0o777)?;
    clean(&stage.run("load", &[])?)?;
    stage.mode("links", 0o755)?;
    // Links that go round are no place.
    fs::remove_file(stage.path("links/two"))?;
    symlink("one", stage.path("links/two"))?;
    clean(&stage.run("load", &[])?)
}

/// Only folders may lie in a sticky folder that all may write: a file there may be anybody's rename.
fn sticky() -> Outcome {
    let stage = Stage::new()?;
    stage.nvrtc(PACKAGE)?;
    stage.mode("target", 0o1777)?;
    loaded(&stage.run("load", &[])?, "a folder in a sticky folder")?;
    stage.mode("target", 0o755)?;
    stage.mode(PACKAGE, 0o1777)?;
    clean(&stage.run("load", &[])?)
}

fn environment() -> Outcome {
    for (lib, name) in [
        ("env/lib", "VIRTUAL_ENV"),
        ("env/lib/python3.12/site-packages/nvidia/cu13/lib", "CONDA_PREFIX"),
    ] {
        let stage = Stage::new()?;
        stage.nvrtc(lib)?;
        let env = stage.path("env");
        loaded(&stage.run("load", &[(name, env.as_os_str())])?, name)?;
        stage.mode("env", 0o777)?;
        clean(&stage.run("load", &[(name, env.as_os_str())])?)?;
    }
    Ok(())
}

/// The user's word: a library that the variables name is loaded, with any owner.
fn named() -> Outcome {
    let stage = Stage::new()?;
    let library = stage.nvrtc("shared/lib")?;
    stage.give("shared", MALLORY)?;
    let (root, lib) = (stage.path("shared"), stage.path("shared/lib"));
    for (name, value) in [
        ("CUDA_NVRTC", &library),
        ("CUDA_NVRTC", &root),
        ("CUDA_PATH", &root),
        ("LD_LIBRARY_PATH", &lib),
    ] {
        let text = stage.run("load", &[(name, value.as_os_str())])?;
        loaded(&text, name)?;
        assert!(text.starts_with(&*library.canonicalize()?.to_string_lossy()), "{name}: {text}");
    }
    // Its builtins too, where all may write.
    stage.mode("shared/lib", 0o777)?;
    let builtins = stage.path("shared/lib/libnvrtc-builtins.so.13.0");
    fs::copy(&library, builtins)?;
    let text = stage.run("load", &[("CUDA_NVRTC", library.as_os_str())])?;
    if text.contains("builtins loaded") {
        Ok(())
    } else {
        Err(format!("no builtins: {text}").into())
    }
}

fn relative_entries() -> Outcome {
    let stage = Stage::new()?;
    stage.nvrtc("here")?;
    stage.nvrtc("here/lib")?;
    for (name, value) in [
        ("LD_LIBRARY_PATH", ""),
        ("LD_LIBRARY_PATH", ":"),
        ("LD_LIBRARY_PATH", "."),
        ("LD_LIBRARY_PATH", "lib:/nonexistent"),
        ("CUDA_PATH", "."),
        ("CUDA_HOME", "../here"),
        ("VIRTUAL_ENV", "."),
        ("CONDA_PREFIX", "../here"),
    ] {
        let text = stage.run("load", &[(name, value.as_ref())])?;
        clean(&text).map_err(|error| format!("{name}={value}: {error}"))?;
    }
    Ok(())
}

/// Another user's variables are not the word of the user as whom the program runs.
fn raised_rights() -> Outcome {
    let stage = Stage::new()?;
    let library = stage.nvrtc("lib")?;
    let raised = stage.path("bin/raised");
    let lock = alone();
    fs::copy(stage.program(), &raised)?;
    drop(lock);
    std::os::unix::fs::chown(&raised, Some(MALLORY), None)?;
    let lib = stage.path("lib");
    let variables: [(&str, &OsStr); 4] = [
        ("CUDA_NVRTC", library.as_os_str()),
        ("CUDA_PATH", stage.top().as_os_str()),
        ("LD_LIBRARY_PATH", lib.as_os_str()),
        ("CUDA_SETUP_DIR", stage.top().as_os_str()),
    ];
    for variable in variables {
        fs::set_permissions(&raised, fs::Permissions::from_mode(0o755))?;
        let name = variable.0;
        if name != "CUDA_SETUP_DIR" {
            loaded(&stage.run_program(&raised, "load", &[variable])?, name)?;
        }
        fs::set_permissions(&raised, fs::Permissions::from_mode(0o4755))?;
        let text = stage.run_program(&raised, "load", &[variable])?;
        if text.contains(&*lib.to_string_lossy()) {
            return Err(format!("{name}: {text}").into());
        }
    }
    Ok(())
}
