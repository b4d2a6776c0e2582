//! The safe public functions that return a guard, a view or a handle, found in the sources.
//!
//! Such a type has a lifetime parameter, a `Drop`, an `Arc`, or a field of such a type: the list follows from
//! the sources, so that it can't be incomplete.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{
    Attribute, FnArg, GenericParam, Generics, ImplItem, Item, ReturnType, Signature, TraitItem,
    Type, Visibility,
};

use test_harness::{Case, Failure, TestResult, ensure};

use crate::attack::workspace;
use crate::declared::attacks;
use crate::sources::files;

/// The crates whose functions are attacked.
const CRATES: [&str; 6] = ["cuda-safe", "cuda-libs", "cuda-nccl", "tape", "geom-kernels", "nvrtc"];

/// Types that keep or borrow something, but give no access to the device and release nothing.
const NOT_HANDLES: &[(&str, &str)] = &[
    ("Error", "a value, shared so that it is cheap to clone"),
    ("ErrorKind", "part of an error"),
    ("LaunchRecord", "part of an error"),
    ("PackedPtx", "names bytes, and gives no access to the device"),
    (
        "Linker",
        "keeps a context and its inputs; the link ends in the call, and its result is bytes",
    ),
    ("Domain", "names ranges for profilers, which know nothing of the device's objects"),
    ("Launches", "draws launches for tests of declarations, which go through the kernels' methods"),
    ("Drawn", "one launch of `Launches`; only generated code is given one"),
    ("Tensor", "comes from unsafe functions alone; its views and buffers are handles"),
    ("Exchange", "comes from an unsafe function, and gives what unsafe functions take"),
    ("RangeGuard", "ends a range for profilers, which know nothing of the device's objects"),
];

/// Functions that return a handle, and that programs can't call, or whose result gives no access in safe code.
const NOT_TARGETS: &[(&str, &str)] = &[
    ("Collected::loaded", "only for crates that record launches: no user has what it takes"),
    ("Collected::memories", "only for crates that record launches: no user has what it takes"),
    ("Loaded::description", "only for crates that record launches: no user has what it takes"),
    ("Loaded::kernel", "only for crates that record launches: no user has what it takes"),
    ("Loaded::program", "only for crates that record launches: no user has what it takes"),
    ("DeclaredSource::program", "a program's text and options, for crates that differentiate it"),
    ("KernelSource::program", "a program's text and options, for crates that differentiate it"),
    ("derivation", "describes an adjoint in words"),
    ("DenseOptions::new", "makes a structure in memory of the host, or options for one"),
    ("VolumeOptions::new", "makes a structure in memory of the host, or options for one"),
    ("Mesh::from_parts", "makes a structure in memory of the host, or options for one"),
    ("Mesh::new", "makes a structure in memory of the host, or options for one"),
    ("Volume::new", "makes a structure in memory of the host, or options for one"),
    ("extract", "makes a surface in vectors of the host"),
    ("extract_with_normals", "makes a surface in vectors of the host"),
    ("HashGrid::near", "of a structure in memory of the host, which borrows as any Rust does"),
    (
        "HashGrid::near_in_group",
        "of a structure in memory of the host, which borrows as any Rust does",
    ),
    (
        "HashGrid::nearest_neighbors",
        "of a structure in memory of the host, which borrows as any Rust does",
    ),
    (
        "HashGrid::nearest_others",
        "of a structure in memory of the host, which borrows as any Rust does",
    ),
    ("HashGrid::neighbors", "of a structure in memory of the host, which borrows as any Rust does"),
    (
        "HashGrid::neighbors_in_group",
        "of a structure in memory of the host, which borrows as any Rust does",
    ),
    (
        "Declared::kernel",
        "only for what `kernels!` writes: methods of the struct return the kernel",
    ),
    (
        "DeclaredInstances::kernel",
        "only for what `kernels!` writes: methods of the struct return the kernel",
    ),
    (
        "DeclaredGlobal::get",
        "only for what `kernels!` writes: the method of the global's name returns it",
    ),
    ("DeclaredIn::module", "only for what `kernels!` writes: `module` of the struct returns it"),
    (
        "Nvrtc::from_functions",
        "a table of functions comes from `cuda_sys::Nvrtc::load_from` or `from_resolver`, which are unsafe",
    ),
    ("KernelSource::load_with_lines", "as `load_kernels`, with another option of the compiler"),
    ("Layer::new", "plans, as `Lt::plan`; its tests record it in graphs and drop it"),
    ("Launches::context", "returns the context that the caller has passed"),
    ("gradcheck", "as `Gradcheck::run`"),
    (
        "Gradcheck::run",
        "takes an `Op`, which comes from an unsafe function; a report holds numbers",
    ),
    ("Op::derivation", "text and numbers, of an `Op`, which comes from an unsafe function"),
    ("Op::detach", "an `Op` comes from `OpSpec::register`, which is unsafe"),
    ("Op::kernel", "an `Op` comes from `OpSpec::register`, which is unsafe"),
    ("FaceTree::new", "hidden in the documentation: for the crate's own tests and benchmarks"),
    ("Pointed::memory", "of a trait in a private module"),
    ("upload", "as `DeviceBuffer::from_slice`, with the layout of an array"),
    ("Source::allocations", "of a trait in a private module"),
    ("Source::parts", "of a trait in a private module"),
];

/// The declarations of the sources.
#[derive(Default)]
struct Api {
    /// The types of each crate. Several crates may have types of one name.
    types: [BTreeMap<String, Declared>; CRATES.len()],
    /// The number of the crate that is read.
    current: usize,
    functions: Vec<Function>,
    /// Names of functions that macros declare, of whatever type.
    in_macros: BTreeSet<String>,
}

#[derive(Default)]
struct Declared {
    public: bool,
    /// Whether it has a lifetime, a `Drop`, or an `Arc` itself.
    holds: bool,
    /// The types of its fields.
    fields: BTreeSet<String>,
}

struct Function {
    /// The number of its crate.
    of: usize,
    /// `Type::name`, or the name alone.
    path: String,
    callable: bool,
    /// The types that its return type names, with `Self` replaced.
    returns: BTreeSet<String>,
}

pub(crate) fn cases() -> Vec<Case> {
    test_harness::cases![
        "targets",
        host(targets_exist_and_are_used),
        host(every_handle_is_attacked)
    ]
}

fn targets_exist_and_are_used() -> TestResult {
    let api = Api::read()?;
    for attack in attacks()? {
        // A call may go through what the file declares beside the attack.
        let words = words(&fs::read_to_string(&attack.file)?)?;
        for target in &attack.targets {
            let name = target.rsplit("::").next().unwrap_or(target).trim_end_matches('!');
            let known = target.ends_with('!')
                || api.in_macros.contains(name)
                || api.functions.iter().any(|function| function.path == *target);
            ensure!(known, "{}: there is no public function `{target}`", attack.name);
            ensure!(words.contains(name), "{} does not call its target `{target}`", attack.name);
        }
    }
    Ok(())
}

fn every_handle_is_attacked() -> TestResult {
    let api = Api::read()?;
    let handles = api.handles();
    for expected in ["DeviceSlice", "HostRef", "Transfer", "GraphExec", "Tape", "Adjoint", "Stream"]
    {
        ensure!(handles.iter().any(|(_, name)| *name == expected), "{expected} was not found");
    }
    for (name, _) in NOT_HANDLES {
        let known = api.types.iter().any(|types| types.contains_key(*name));
        ensure!(known, "there is no type {name}");
    }
    let attacks = attacks()?;
    let targets: BTreeSet<&str> =
        attacks.iter().flat_map(|attack| &attack.targets).map(String::as_str).collect();
    let returns_handle = |function: &&Function| {
        let is_handle = |name: &String| handles.contains(&(api.declared(function.of, name), name));
        function.callable && function.returns.iter().any(is_handle)
    };
    let returning: Vec<_> = api.functions.iter().filter(returns_handle).collect();
    for (path, _) in NOT_TARGETS {
        let known = returning.iter().any(|function| function.path == *path);
        ensure!(known, "no function {path} returns a handle");
        ensure!(!targets.contains(path), "{path} is attacked, and in the list of exceptions");
    }
    let mut left = BTreeSet::new();
    let mut count = 0;
    for function in returning {
        if NOT_TARGETS.iter().any(|(path, _)| *path == function.path) {
            continue;
        }
        count += 1;
        if !targets.contains(function.path.as_str()) {
            left.insert(function.path.clone());
        }
    }
    ensure!(count > 100, "only {count} functions were found");
    let left: Vec<_> = left.into_iter().collect();
    let (some, list) = (left.len(), left.join(", "));
    ensure!(
        left.is_empty(),
        "{some} of {count} functions that return handles are not attacked: {list}"
    );
    Ok(())
}

/// The identifiers of a source.
fn words(source: &str) -> Result<BTreeSet<String>, Failure> {
    let stream: TokenStream = source.parse().map_err(|error| Failure::new(format!("{error}")))?;
    let mut words = BTreeSet::new();
    collect(stream, &mut words);
    Ok(words)
}

fn collect(stream: TokenStream, words: &mut BTreeSet<String>) {
    for tree in stream {
        match tree {
            TokenTree::Ident(name) => {
                words.insert(name.to_string());
            }
            TokenTree::Group(group) => collect(group.stream(), words),
            _ => {}
        }
    }
}

impl Api {
    fn read() -> Result<Self, Failure> {
        let mut api = Self::default();
        for (number, name) in CRATES.iter().enumerate() {
            api.current = number;
            for file in files(&workspace().join(name).join("src"))? {
                let is_test = file.components().any(|part| {
                    let part = part.as_os_str();
                    part == "tests" || part == "tests.rs"
                });
                if is_test {
                    continue;
                }
                let parsed = syn::parse_file(&fs::read_to_string(&file)?)
                    .map_err(|error| Failure::new(format!("{}: {error}", file.display())))?;
                api.items(parsed.items);
            }
        }
        Ok(api)
    }

    fn items(&mut self, items: Vec<Item>) {
        for item in items {
            match item {
                Item::Mod(module) if !is_test(&module.attrs) => {
                    self.items(module.content.map_or_else(Vec::new, |(_, items)| items));
                }
                Item::Struct(item) => {
                    let fields = item.fields.to_token_stream();
                    self.declare(&item.ident.to_string(), &item.vis, &item.generics, fields);
                }
                Item::Enum(item) => {
                    // Not the names of variants, which may be those of types.
                    let fields =
                        item.variants.iter().map(|it| it.fields.to_token_stream()).collect();
                    self.declare(&item.ident.to_string(), &item.vis, &item.generics, fields);
                }
                Item::Fn(item) => self.function(None, &item.vis, &item.attrs, &item.sig),
                Item::Trait(item) => {
                    let owner = item.ident.to_string();
                    for function in item.items {
                        if let TraitItem::Fn(function) = function {
                            self.function(Some(&owner), &item.vis, &function.attrs, &function.sig);
                        }
                    }
                }
                Item::Impl(item) => {
                    let Some(owner) = name_of(&item.self_ty) else { continue };
                    if let Some((_, path, _)) = &item.trait_ {
                        if path.is_ident("Drop") {
                            self.types[self.current].entry(owner).or_default().holds = true;
                        }
                        continue;
                    }
                    for function in item.items {
                        if let ImplItem::Fn(function) = function {
                            self.function(
                                Some(&owner),
                                &function.vis,
                                &function.attrs,
                                &function.sig,
                            );
                        }
                    }
                }
                Item::Macro(item) => self.in_macro(item.mac.tokens),
                _ => {}
            }
        }
    }

    fn declare(&mut self, name: &str, vis: &Visibility, generics: &Generics, fields: TokenStream) {
        let mut named = BTreeSet::new();
        collect(fields, &mut named);
        let borrows = generics.params.iter().any(|p| matches!(p, GenericParam::Lifetime(_)));
        let declared = self.types[self.current].entry(name.to_owned()).or_default();
        declared.public |= matches!(vis, Visibility::Public(_));
        declared.holds |= borrows || named.contains("Arc");
        declared.fields.extend(named);
    }

    fn function(
        &mut self,
        owner: Option<&str>,
        vis: &Visibility,
        attrs: &[Attribute],
        sig: &Signature,
    ) {
        if !matches!(vis, Visibility::Public(_)) || is_test(attrs) {
            return;
        }
        let name = sig.ident.to_string();
        let path = owner.map_or_else(|| name.clone(), |owner| format!("{owner}::{name}"));
        let hidden = attrs.iter().any(|attribute| {
            attribute.path().is_ident("doc")
                && attribute.to_token_stream().to_string().contains("hidden")
        });
        let mut returns = BTreeSet::new();
        // A builder that returns itself gives nothing new.
        let by_value =
            matches!(sig.inputs.first(), Some(FnArg::Receiver(it)) if it.reference.is_none());
        if let ReturnType::Type(_, returned) = &sig.output
            && !(by_value && name_of(returned).as_deref() == Some("Self"))
        {
            collect(returned.to_token_stream(), &mut returns);
            if returns.remove("Self")
                && let Some(owner) = owner
            {
                returns.insert(owner.to_owned());
            }
        }
        let callable = sig.unsafety.is_none() && !hidden;
        self.functions.push(Function { of: self.current, path, callable, returns });
    }

    /// Notes the names of functions that a macro declares.
    fn in_macro(&mut self, stream: TokenStream) {
        let trees: Vec<TokenTree> = stream.into_iter().collect();
        for (index, tree) in trees.iter().enumerate() {
            match tree {
                TokenTree::Group(group) => self.in_macro(group.stream()),
                TokenTree::Ident(word) if word == "fn" => {
                    if let Some(TokenTree::Ident(name)) = trees.get(index + 1) {
                        self.in_macros.insert(name.to_string());
                    }
                }
                _ => {}
            }
        }
    }

    /// Returns the crate whose type a crate means by a name: the crate itself, or the first that has one.
    fn declared(&self, by: usize, name: &str) -> usize {
        let has = |of: &usize| self.types[*of].contains_key(name);
        Some(by).filter(has).or_else(|| (0..CRATES.len()).find(has)).unwrap_or(by)
    }

    /// The public types that are guards, views or handles, each with the number of its crate.
    fn handles(&self) -> BTreeSet<(usize, &str)> {
        let excepted = |name: &str| NOT_HANDLES.iter().any(|(known, _)| *known == name);
        let types = || {
            let all = self.types.iter().enumerate();
            all.flat_map(|(of, types)| types.iter().map(move |(name, it)| (of, &**name, it)))
        };
        let mut holding: BTreeSet<(usize, &str)> = BTreeSet::new();
        loop {
            let before = holding.len();
            for (of, name, declared) in types().filter(|(_, name, _)| !excepted(name)) {
                let holds = |field: &String| holding.contains(&(self.declared(of, field), field));
                if declared.holds || declared.fields.iter().any(holds) {
                    holding.insert((of, name));
                }
            }
            if holding.len() == before {
                break;
            }
        }
        types()
            .filter(|(of, name, it)| it.public && holding.contains(&(*of, *name)))
            .map(|(of, name, _)| (of, name))
            .collect()
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg") && attribute.to_token_stream().to_string().contains("test")
    })
}

/// The last name of a type's path.
fn name_of(of: &Type) -> Option<String> {
    match of {
        Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
        _ => None,
    }
}
