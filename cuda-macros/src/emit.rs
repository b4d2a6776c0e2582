//! From the declaration to the struct, its constructors and one method per kernel.

use crate::check::check;
use crate::function::{Function, Kind, Param};
use crate::lex::quote;
use crate::parse::{Attribute, Declaration};
use crate::token::{Span, Token, to_text};
use proc_macro::Delimiter;

/// The generated items.
pub(crate) fn emit(declaration: &Declaration) -> Vec<Token> {
    let Declaration { krate, attributes, visibility, name, promise, source, functions } =
        declaration;
    let text = display_name(name);
    let mut fields = Vec::new();
    let mut symbols = Vec::new();
    let mut found = Vec::new();
    let mut methods = Vec::new();
    for function in functions {
        let holes: &[(&str, &[Token])] = &[
            ("cfg", &cfg(&function.attributes)),
            ("name", std::slice::from_ref(&function.name)),
            ("symbol", std::slice::from_ref(&function.symbol)),
            ("cuda", krate),
        ];
        fields.extend(quote("$cfg $name: $cuda::Kernel,", holes));
        symbols.extend(quote("$cfg $symbol,", holes));
        found.extend(quote("$cfg $name: $cuda::Module::kernel(module, $symbol)?,", holes));
        methods.extend(method(function, krate));
        methods.extend(access(function, krate));
    }
    let documented = attributes.iter().any(|attribute| attribute.name == "doc");
    // `#[allow(unsafe_code)]` on the struct is meant for what the struct does.
    let lints = concat(attributes.iter().filter(|a| a.name == "cfg" || a.name == "allow"));
    let derives_debug = attributes.iter().any(|attribute| {
        attribute.name == "derive" && to_text(&attribute.tokens).contains("Debug")
    });
    let default_doc = if documented { Vec::new() } else { doc("The kernels of one CUDA source.") };
    let debug = if derives_debug {
        Vec::new()
    } else {
        quote(
            "$cfg impl ::core::fmt::Debug for $name {
                fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                    f.debug_struct($text).finish_non_exhaustive()
                }
            }",
            &[
                ("cfg", &cfg(attributes)),
                ("name", std::slice::from_ref(name)),
                ("text", &[Token::string(&text, Span::Macro)]),
            ],
        )
    };
    // The block that spends the promise has the span of the `unsafe` that gives it, so that
    // `#![deny(unsafe_code)]` and lints of the like see it.
    let promised = [
        Token::Ident("unsafe".to_owned(), *promise),
        Token::Group(Delimiter::Brace, quote("Self::from_module(&module)", &[]), *promise),
    ];
    quote(
        r#"
        $default_doc $attributes
        #[allow(clippy::struct_field_names, reason = "fields have the kernels' names")]
        $visibility struct $name { $fields }

        $lints
        impl $name {
            /// Compiles the source for the device of `context`, or takes it from the cache, and loads it.
            ///
            /// # Errors
            /// The source does not compile, its image does not load, or a kernel is not in it.
            #[allow(dead_code, reason = "one of the two constructors is enough")]
            pub fn load(context: &$cuda::Context) -> $cuda::Result<Self> {
                let module =
                    <_ as $cuda::KernelSource>::load_kernels($source, context, &[$symbols])?;
                // SAFETY: `module` was made from the source that `unsafe in` names, two lines above.
                $promise
            }

            /// Takes the kernels from a module that is loaded already.
            ///
            /// # Safety
            /// `module` was made from the source that this declaration names after `unsafe in`, or its
            /// kernels keep the same promises: the safe methods launch them without further checks.
            ///
            /// # Errors
            /// A kernel is not in `module`.
            #[allow(dead_code, reason = "one of the two constructors is enough")]
            #[allow(unused_variables, reason = "there may be no kernel for this configuration")]
            pub unsafe fn from_module(module: &$cuda::Module) -> $cuda::Result<Self> {
                ::core::result::Result::Ok(Self { $found })
            }

            $methods
        }

        $debug
        "#,
        &[
            ("default_doc", &default_doc),
            ("attributes", &concat(attributes)),
            ("lints", &lints),
            ("visibility", visibility),
            ("name", std::slice::from_ref(name)),
            ("fields", &fields),
            ("cuda", krate),
            ("promise", &promised),
            ("source", source),
            ("symbols", &symbols),
            ("found", &found),
            ("methods", &methods),
            ("debug", &debug),
        ],
    )
}

/// The method that launches a kernel.
fn method(function: &Function, krate: &[Token]) -> Vec<Token> {
    let (mut lifetimes, mut params) = (Vec::new(), Vec::new());
    let (mut conversions, mut arguments) = (Vec::new(), Vec::new());
    for param in &function.params {
        let name = std::slice::from_ref(&param.name);
        match &param.kind {
            Kind::Value { ty, .. } => {
                params.extend(quote("$name: $ty,", &[("name", name), ("ty", ty)]));
            }
            Kind::Slice { element, mutable } => {
                let lifetime = lifetime(param);
                let view = quote(
                    if *mutable {
                        "$cuda::DeviceSliceMut<$a, $T>"
                    } else {
                        "$cuda::DeviceSlice<$a, $T>"
                    },
                    &[("cuda", krate), ("a", &lifetime), ("T", element)],
                );
                let holes: &[(&str, &[Token])] =
                    &[("a", &lifetime), ("name", name), ("view", &view)];
                lifetimes.extend(quote("$a,", holes));
                params.extend(quote("$name: impl ::core::convert::Into<$view>,", holes));
                conversions
                    .extend(quote("let $name: $view = ::core::convert::Into::into($name);", holes));
            }
        }
        arguments.extend(quote("$name,", &[("name", name)]));
    }
    let generics = match lifetimes.as_slice() {
        [] => Vec::new(),
        _ => quote("<$lifetimes>", &[("lifetimes", &lifetimes)]),
    };
    let checks: Vec<Token> =
        function.clauses.iter().flat_map(|clause| check(clause, function, krate)).collect();
    let others =
        function.attributes.iter().map(|attribute| attribute.tokens.as_slice()).collect::<Vec<_>>();
    let public = quote("pub", &[]);
    quote(
        "$attributes $docs
        #[allow(clippy::too_many_arguments, reason = \"a kernel has as many as it has\")]
        $visibility $unsafety fn $name $generics (
            &self,
            stream: &$cuda::Stream,
            launch: impl ::core::convert::Into<$cuda::Launch>,
            $params
        ) -> $cuda::Result<()> {
            $conversions
            $checks
            // SAFETY: of a `safe fn`, whoever wrote `unsafe in` promised that its kernel stays inside
            // its arguments under the clauses, which were just checked; of an `unsafe fn`, our caller
            // promises it.
            unsafe {
                $cuda::Kernel::launch(
                    &self.$name, stream, ::core::convert::Into::into(launch), ($arguments),
                )
            }
        }",
        &[
            ("attributes", &others.concat()),
            ("docs", &method_docs(function)),
            ("visibility", if function.visibility.is_empty() { &public } else { &function.visibility }),
            ("unsafety", &if function.safe { Vec::new() } else { quote("unsafe", &[]) }),
            ("name", std::slice::from_ref(&function.name)),
            ("generics", &generics),
            ("cuda", krate),
            ("params", &params),
            ("conversions", &conversions),
            ("checks", &checks),
            ("arguments", &arguments),
        ],
    )
}

/// The method that shows the kernel itself.
fn access(function: &Function, krate: &[Token]) -> Vec<Token> {
    let name = std::slice::from_ref(&function.name);
    let span = function.name.span();
    let access = Token::Ident(format!("{}_kernel", function.text), span);
    let public = quote("pub", &[]);
    quote(
        "$cfg $doc
        #[allow(dead_code, reason = \"few launches need more than the method\")]
        #[must_use]
        $visibility fn $access(&self) -> &$cuda::Kernel { &self.$name }",
        &[
            ("cfg", &cfg(&function.attributes)),
            (
                "doc",
                &doc(&format!("The kernel `{}`, for its attributes and occupancy.", function.text)),
            ),
            (
                "visibility",
                if function.visibility.is_empty() { &public } else { &function.visibility },
            ),
            ("access", &[access]),
            ("cuda", krate),
            ("name", name),
        ],
    )
}

/// What the user's own documentation of a kernel does not say.
fn method_docs(function: &Function) -> Vec<Token> {
    let user = function.attributes.iter().filter(|attribute| attribute.name == "doc");
    let user = concat(user);
    let mut lines = Vec::new();
    if user.is_empty() {
        lines.push(format!("Enqueues the kernel `{}` on `stream`.", function.text));
    }
    if !function.safe && !to_text(&user).contains("# Safety") {
        lines.push(String::new());
        lines.push("# Safety".to_owned());
        lines.push("The kernel stays inside the memory that its arguments give it.".to_owned());
    }
    lines.push(String::new());
    lines.push("# Errors".to_owned());
    let clauses: Vec<String> = function
        .clauses
        .iter()
        .map(|clause| format!("`{}`", clause.display(&function.params)))
        .collect();
    if !clauses.is_empty() {
        lines.push(format!("Unless {}; nothing is launched then.", clauses.join(", ")));
    }
    lines.push("What launching a kernel may answer.".to_owned());
    lines.iter().flat_map(|line| doc(line)).collect()
}

/// The lifetime of a slice, named after its parameter so that the documentation reads well.
fn lifetime(param: &Param) -> Vec<Token> {
    // A raw name may be a keyword, and `'in` is no lifetime.
    let name = match param.text.strip_prefix("r#") {
        Some(raw) => format!("{raw}_"),
        None => param.text.clone(),
    };
    vec![
        Token::Punct('\'', proc_macro::Spacing::Joint, Span::Macro),
        Token::Ident(name, Span::Macro),
    ]
}

/// `/// line`
fn doc(line: &str) -> Vec<Token> {
    let line = if line.is_empty() { String::new() } else { format!(" {line}") };
    crate::lex::doc(&line, Span::Macro).to_vec()
}

fn cfg(attributes: &[Attribute]) -> Vec<Token> {
    concat(attributes.iter().filter(|attribute| attribute.name == "cfg"))
}

fn concat<'a>(attributes: impl IntoIterator<Item = &'a Attribute>) -> Vec<Token> {
    attributes.into_iter().flat_map(|attribute| attribute.tokens.iter().cloned()).collect()
}

fn display_name(name: &Token) -> String {
    to_text(std::slice::from_ref(name)).trim_start_matches("r#").to_owned()
}
