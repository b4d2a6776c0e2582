//! From the declaration to the struct, its constructors and one method per kernel.

use crate::generics::{angled, declared, names};
use crate::gradient;
use crate::lex::quote;
use crate::method::{access, method};
use crate::parse::{Attribute, Declaration};
use crate::symbol::local;
use crate::token::{Span, Token, to_text};
use crate::{compare, source, testing};
use proc_macro::Delimiter;

/// Returns the generated items.
pub(crate) fn emit(declaration: &Declaration) -> Vec<Token> {
    let Declaration { krate, attributes, visibility, name, shared, promise, source, .. } =
        declaration;
    let Declaration { functions, globals, .. } = declaration;
    let text = display_name(name);
    let params = shared.generics.as_slice();
    let generics = angled(&declared(params, krate));
    let of = angled(&names(params));
    let mut fields = Vec::new();
    let mut symbols = Vec::new();
    let mut found = Vec::new();
    let mut clones = Vec::new();
    let mut methods = Vec::new();
    let mut comparisons = Vec::new();
    let mut tests = Vec::new();
    for (index, function) in functions.iter().enumerate() {
        let cfg = cfg(&function.attributes);
        let each = function.symbols();
        let mut list = Vec::new();
        for symbol in &each {
            let symbol = symbol.expression(params, krate);
            let holes: &[(&str, &[Token])] = &[("cfg", &cfg), ("symbol", &symbol)];
            symbols.extend(quote("$cfg $symbol,", holes));
            list.extend(quote("$symbol,", holes));
        }
        let holes: &[(&str, &[Token])] = &[
            ("cfg", &cfg),
            ("name", std::slice::from_ref(&function.name)),
            ("symbol", &function.symbol.expression(params, krate)),
            ("list", &list),
            ("count", &[Token::Literal(format!("{}usize", each.len()), Span::Macro)]),
            ("index", &[Token::Literal(format!("{index}usize"), Span::Macro)]),
            ("cuda", krate),
        ];
        // A field's type names the struct and the declaration, and safe code makes no value of it: only
        // the same field of another such struct can be assigned.
        let (field, find) = if function.generics.is_empty() {
            (
                "$cfg $name: $cuda::__private::Declared<Self, $index>,",
                "$cfg $name: unsafe { $cuda::__private::Declared::find(module, $symbol) }?,",
            )
        } else {
            (
                "$cfg $name: $cuda::__private::DeclaredInstances<Self, $index, $count>,",
                "$cfg $name: unsafe {
                    $cuda::__private::DeclaredInstances::find(module, [$list])
                }?,",
            )
        };
        fields.extend(quote(field, holes));
        found.extend(quote(find, holes));
        clones.extend(quote("$cfg $name: ::core::clone::Clone::clone(&self.$name),", holes));
        comparisons.extend(compare::comparisons(function, params, krate));
        methods.extend(method(function, krate, None));
        if let Some(parts) = gradient::parts(function, index, krate) {
            fields.extend(parts.field);
            found.extend(parts.found);
            clones.extend(parts.clone);
            methods.extend(parts.method);
        }
        methods.extend(access(function, krate));
        if declaration.testing.is_some() {
            tests.extend(testing::tests(function, krate));
        }
    }
    for (index, global) in globals.iter().enumerate() {
        let parts = global.parts(index, params, krate);
        fields.extend(parts.field);
        found.extend(parts.found);
        clones.extend(parts.clone);
        symbols.extend(parts.symbol);
        methods.extend(parts.method);
        comparisons.extend(parts.comparison);
    }
    // The text that gradients are generated from: only that of a source that the struct was loaded from.
    let records = functions.iter().any(|function| function.gradient.is_some());
    let (mut keep, mut kept) = (Vec::new(), promised_kernels(*promise));
    let mut unsafe_kept = quote(
        "// SAFETY: our caller promises that the kernels keep what the declaration promises.
                unsafe { Self::from_module(&module) }",
        &[],
    );
    if records {
        let holes: &[(&str, &[Token])] = &[("cuda", krate)];
        fields.extend(quote(
            "#[allow(dead_code, reason = \"the kernels with gradients may be left out by a `cfg`\")]
            gradient_source: $cuda::__private::DeclaredSource<Self>,",
            holes,
        ));
        found.extend(quote("gradient_source: ::core::default::Default::default(),", holes));
        clones.extend(quote(
            "gradient_source: ::core::clone::Clone::clone(&self.gradient_source),",
            holes,
        ));
        keep = quote("let program = <_ as $cuda::KernelSource>::program(&source);", holes);
        let with_source = |kernels: &[Token]| {
            quote(
                "let kernels = $kernels?;
                // SAFETY: the module was made from this source.
                ::core::result::Result::Ok(Self {
                    gradient_source: unsafe { $cuda::__private::DeclaredSource::new(program) },
                    ..kernels
                })",
                &[("cuda", krate), ("kernels", kernels)],
            )
        };
        (kept, unsafe_kept) = (with_source(&kept), with_source(&unsafe_kept));
    }
    let documented = attributes.iter().any(|attribute| attribute.name == "doc");
    // `#[allow(unsafe_code)]` on the struct is meant for what the struct does.
    let lints = concat(attributes.iter().filter(|a| a.name == "cfg" || a.name == "allow"));
    let derives = |name: &str| {
        attributes.iter().any(|attribute| {
            attribute.name == "derive" && to_text(&attribute.tokens).contains(name)
        })
    };
    let traits: &[(&str, &[Token])] = &[
        ("cfg", &cfg(attributes)),
        ("generics", &generics),
        ("name", std::slice::from_ref(name)),
        ("of", &of),
        ("text", &[Token::string(&text, Span::Macro)]),
        ("clones", &clones),
        ("cuda", krate),
        ("lints", &lints),
    ];
    // Handles to kernels are cheap to copy, and closures that outlive a borrow need their own.
    let clone = match derives("Clone") {
        true => Vec::new(),
        false => quote(
            "$cfg impl $generics ::core::clone::Clone for $name $of {
                fn clone(&self) -> Self {
                    Self { $clones module: ::core::clone::Clone::clone(&self.module) }
                }
            }",
            traits,
        ),
    };
    let default_doc = if documented { Vec::new() } else { doc("The kernels of one CUDA source.") };
    let debug = match derives("Debug") {
        true => Vec::new(),
        false => quote(
            "$cfg impl $generics ::core::fmt::Debug for $name $of {
                fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                    f.debug_struct($text).finish_non_exhaustive()
                }
            }",
            traits,
        ),
    };
    let declared_kernels = quote(
        "$lints
        impl $generics $cuda::DeclaredKernels for $name $of {
            unsafe fn from_module(module: &$cuda::Module) -> $cuda::Result<Self> {
                // SAFETY: the caller promises what the function of the same name wants.
                unsafe { Self::from_module(module) }
            }
        }",
        traits,
    );
    // Where the struct has type parameters, the texts of their instances, for the symbols.
    let mut instances = Vec::new();
    for (i, param) in params.iter().enumerate() {
        instances.extend(quote(
            "let (_, $local) = $found;",
            &[("local", &[local(i)]), ("found", &param.found(&text, params, krate))],
        ));
    }
    // A struct that used its parameters in itself alone would not compile.
    let used = match params {
        [] => quote("Self", &[]),
        _ => quote("Self, ($of)", &[("of", &names(params))]),
    };
    let promised = promised_kernels(*promise);
    let source = source::named(source, krate);
    let keep_own = match records {
        true => quote("let source = $source; $keep", &[("source", &source), ("keep", &keep)]),
        false => Vec::new(),
    };
    let loaded = quote("source", &[]);
    let testing = match &declaration.testing {
        None => Vec::new(),
        Some(cfg) => testing::functions(&[
            ("cfg", cfg),
            ("cuda", krate),
            ("instances", &instances),
            ("source", &source),
            ("symbols", &symbols),
            ("promise", &promised),
            ("tests", &tests),
        ]),
    };
    quote(
        r#"
        $default_doc $attributes
        #[allow(clippy::struct_field_names, reason = "fields have the kernels' names")]
        $visibility struct $name $generics { $fields module: $cuda::__private::DeclaredIn<$used> }

        $lints
        impl $generics $name $of {
            /// Compiles the source for the device of `context`, or takes it from the cache, and loads it.
            ///
            /// # Errors
            /// The source does not compile, its image does not load, or a kernel is not in it.
            #[allow(dead_code, reason = "one of the constructors is enough")]
            pub fn load(context: &$cuda::Context) -> $cuda::Result<Self> {
                $instances
                $keep_own
                let module =
                    <_ as $cuda::KernelSource>::load_kernels($loaded, context, &[$symbols])?;
                // SAFETY: `module` was made from the source that `unsafe in` names, two lines above.
                $kept
            }

            /// Compiles and loads `source`, and takes the kernels from it: the declared source with options, headers or
            /// macros that the program chooses at run time, or another text.
            ///
            /// # Safety
            /// The kernels of `source` keep the promises of this declaration's `unsafe in`: the safe methods launch
            /// them without further checks. Other options or macros may break a promise that was made for the declared
            /// source.
            ///
            /// # Errors
            /// As `load`.
            #[allow(dead_code, reason = "one of the constructors is enough")]
            pub unsafe fn load_from(
                context: &$cuda::Context,
                source: impl $cuda::KernelSource,
            ) -> $cuda::Result<Self> {
                $instances
                $keep
                let module = <_ as $cuda::KernelSource>::load_kernels(source, context, &[$symbols])?;
                $unsafe_kept
            }

            /// Takes the kernels from a module that is loaded already.
            ///
            /// # Safety
            /// `module` was made from the source that this declaration names after `unsafe in`, or its
            /// kernels keep the same promises: the safe methods launch them without further checks.
            ///
            /// # Errors
            /// A kernel is not in `module`.
            #[allow(dead_code, reason = "one of the constructors is enough")]
            pub unsafe fn from_module(module: &$cuda::Module) -> $cuda::Result<Self> {
                $instances
                // SAFETY: our caller promises that `module` has the kernels that are declared here.
                ::core::result::Result::Ok(Self {
                    $found
                    module: unsafe { $cuda::__private::DeclaredIn::new(module) },
                })
            }

            /// Compiles the source for `arch`, or reads its PTX, and compares the declared kernels and globals with those
            /// of the image, as first launches and `load` do. Needs no device and no driver.
            ///
            /// # Errors
            /// The source does not compile, a kernel or a global is not in its image, a kernel has other parameters, or a
            /// global has another size or type.
            #[allow(dead_code, reason = "for tests")]
            pub fn check(arch: $cuda::nvrtc::Arch) -> $cuda::Result<()> {
                $instances
                let kernels = <_ as $cuda::KernelSource>::signatures($source, arch, &[$symbols])?;
                $comparisons
                // Perhaps everything is behind a `#[cfg]` that does not hold.
                let _ = &kernels;
                ::core::result::Result::Ok(())
            }

            /// Returns the module that the kernels are in, for globals that are not declared.
            #[allow(dead_code, reason = "few sources have globals")]
            #[must_use]
            pub fn module(&self) -> $cuda::Module {
                $cuda::__private::DeclaredIn::module(&self.module)
            }

            $testing
            $methods
        }

        $clone
        $debug
        $declared_kernels
        "#,
        &[
            ("default_doc", &default_doc),
            ("attributes", &concat(attributes)),
            ("clone", &clone),
            ("lints", &lints),
            ("visibility", visibility),
            ("name", std::slice::from_ref(name)),
            ("fields", &fields),
            ("cuda", krate),
            ("keep", &keep),
            ("keep_own", &keep_own),
            ("loaded", if records { &loaded } else { &source }),
            ("kept", &kept),
            ("unsafe_kept", &unsafe_kept),
            ("source", &source),
            ("symbols", &symbols),
            ("found", &found),
            ("methods", &methods),
            ("testing", &testing),
            ("debug", &debug),
            ("declared_kernels", &declared_kernels),
            ("generics", &generics),
            ("of", &of),
            ("used", &used),
            ("instances", &instances),
            ("comparisons", &comparisons),
        ],
    )
}

/// Returns the kernels of `module`, in a block that spends the promise. It has the span of the `unsafe` that gives it,
/// so that `#![deny(unsafe_code)]` and lints of the like see it.
fn promised_kernels(promise: Span) -> Vec<Token> {
    let kernels = quote("Self::from_module(&module)", &[]);
    vec![
        Token::Ident("unsafe".to_owned(), promise),
        Token::Group(Delimiter::Brace, kernels, promise),
    ]
}

/// `/// line`
pub(crate) fn doc(line: &str) -> Vec<Token> {
    let line = if line.is_empty() { String::new() } else { format!(" {line}") };
    crate::lex::doc(&line, Span::Macro).to_vec()
}

pub(crate) fn cfg(attributes: &[Attribute]) -> Vec<Token> {
    concat(attributes.iter().filter(|attribute| attribute.name == "cfg"))
}

pub(crate) fn concat<'a>(attributes: impl IntoIterator<Item = &'a Attribute>) -> Vec<Token> {
    attributes.into_iter().flat_map(|attribute| attribute.tokens.iter().cloned()).collect()
}

fn display_name(name: &Token) -> String {
    to_text(std::slice::from_ref(name)).trim_start_matches("r#").to_owned()
}
