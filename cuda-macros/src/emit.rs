//! From the declaration to the struct, its constructors and one method per kernel.

use crate::check::check;
use crate::function::{Function, Kind, Param};
use crate::lex::quote;
use crate::parse::{Attribute, Declaration};
use crate::primitive::primitives;
use crate::source;
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
    for (index, function) in functions.iter().enumerate() {
        let holes: &[(&str, &[Token])] = &[
            ("cfg", &cfg(&function.attributes)),
            ("name", std::slice::from_ref(&function.name)),
            ("symbol", std::slice::from_ref(&function.symbol)),
            ("index", &[Token::Literal(format!("{index}usize"), Span::Macro)]),
            ("cuda", krate),
        ];
        // A field's type names the struct and the declaration, and safe code makes no value of it: only
        // the same field of another such struct can be assigned.
        fields.extend(quote("$cfg $name: $cuda::__private::Declared<Self, $index>,", holes));
        symbols.extend(quote("$cfg $symbol,", holes));
        found.extend(quote(
            "$cfg $name: unsafe { $cuda::__private::Declared::find(module, $symbol) }?,",
            holes,
        ));
        methods.extend(method(function, krate));
        methods.extend(access(function, krate));
    }
    let documented = attributes.iter().any(|attribute| attribute.name == "doc");
    // `#[allow(unsafe_code)]` on the struct is meant for what the struct does.
    let lints = concat(attributes.iter().filter(|a| a.name == "cfg" || a.name == "allow"));
    let derives = |name: &str| {
        attributes.iter().any(|attribute| {
            attribute.name == "derive" && to_text(&attribute.tokens).contains(name)
        })
    };
    // Handles to kernels are cheap to copy, and closures that outlive a borrow need their own.
    let clone = match derives("Clone") {
        true => Vec::new(),
        false => quote("#[derive(::core::clone::Clone)]", &[]),
    };
    let default_doc = if documented { Vec::new() } else { doc("The kernels of one CUDA source.") };
    let debug = if derives("Debug") {
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
        $default_doc $attributes $clone
        #[allow(clippy::struct_field_names, reason = "fields have the kernels' names")]
        $visibility struct $name { $fields module: $cuda::__private::DeclaredIn<Self> }

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
            pub unsafe fn from_module(module: &$cuda::Module) -> $cuda::Result<Self> {
                // SAFETY: our caller promises that `module` has the kernels that are declared here.
                ::core::result::Result::Ok(Self {
                    $found
                    module: unsafe { $cuda::__private::DeclaredIn::new(module) },
                })
            }

            /// The module that the kernels are in, for its globals.
            #[allow(dead_code, reason = "few sources have globals")]
            #[must_use]
            pub fn module(&self) -> $cuda::Module {
                $cuda::__private::DeclaredIn::module(&self.module)
            }

            $methods
        }

        $debug
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
            ("promise", &promised),
            ("source", &source::named(source, krate)),
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
                let ty = primitives(ty);
                params.extend(quote("$name: $ty,", &[("name", name), ("ty", &ty)]));
            }
            Kind::Slice { element, mutable, from, to } => {
                let lifetime = lifetime(param);
                let element = primitives(element);
                let (view, method) = match mutable {
                    true => ("$cuda::WriteView", "::write_view"),
                    false => ("$cuda::ReadView", "::read_view"),
                };
                // What rustc shows of a bound that an argument misses goes from `&` to `]`.
                let view = at(*from, quote(view, &[("cuda", krate)]));
                let make = at(*from, quote(method, &[]));
                let taken = [Token::Group(Delimiter::Parenthesis, name.to_vec(), *from)];
                let end = at(*to, quote(">", &[]));
                let holes: &[(&str, &[Token])] = &[
                    ("a", &lifetime),
                    ("T", &element),
                    ("name", name),
                    ("view", &view),
                    ("make", &make),
                    ("taken", &taken),
                    ("end", &end),
                ];
                lifetimes.extend(quote("$a,", holes));
                params.extend(quote("$name: impl $view<$a, $T $end,", holes));
                conversions.extend(quote("let $name = $view $make $taken;", holes));
            }
        }
        // Where rustc reports a type that is no kernel argument.
        let argument =
            Token::Ident(param.text.clone(), param.name.span().located_at(param.type_span()));
        arguments.extend(quote("$name,", &[("name", &[argument])]));
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
    let here = function.name.span();
    quote(
        "$attributes $docs
        #[allow(clippy::too_many_arguments, reason = \"a kernel has as many as it has\")]
        $visibility $unsafety fn $name $generics (
            &self,
            stream: &$cuda::Stream,
            launch: impl $into_launch_config,
            $params
        ) -> $cuda::Result<()> {
            let launch = $cuda::IntoLaunchConfig::into_launch_config(launch);
            $conversions
            $shape
            $checks
            // SAFETY: of a `safe fn`, whoever wrote `unsafe in` promised that its kernel stays inside
            // its arguments, and does not race, in the shapes and under the clauses that were just
            // checked; of an `unsafe fn`, our caller promises it.
            unsafe {
                $launch(
                    $cuda::__private::Declared::kernel(&self.$name), stream, launch, $arguments
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
            ("into_launch_config", &at(here, quote("$cuda::IntoLaunchConfig", &[("cuda", krate)]))),
            ("conversions", &conversions),
            ("shape", &in_x_alone(function, krate)),
            ("checks", &checks),
            ("launch", &at(here, quote("$cuda::Kernel::launch", &[("cuda", krate)]))),
            ("arguments", &[Token::Group(Delimiter::Parenthesis, arguments, here)]),
        ],
    )
}

/// What keeps a safe method's launches to 1 in the dimensions that its clauses say nothing of.
fn in_x_alone(function: &Function, krate: &[Token]) -> Vec<Token> {
    let [y, z] = function.locked();
    if !(y || z) {
        return Vec::new();
    }
    quote(
        &format!("$cuda::__private::in_x_alone($kernel, &launch, {y}, {z})?;"),
        &[("cuda", krate), ("kernel", &[Token::string(&function.text, Span::Macro)])],
    )
}

/// `tokens`, as if they were written at `span`.
fn at(span: Span, tokens: Vec<Token>) -> Vec<Token> {
    tokens.into_iter().map(|token| token.with_span(span)).collect()
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
        $visibility fn $access(&self) -> &$cuda::Kernel {
            $cuda::__private::Declared::kernel(&self.$name)
        }",
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
    let shape = match function.locked() {
        [true, true] => Some("the launch is in x alone"),
        [true, false] => Some("the launch is in x and z alone"),
        [false, true] => Some("the launch is in x and y alone"),
        [false, false] => None,
    };
    let clauses =
        function.clauses.iter().map(|clause| format!("`{}`", clause.display(&function.params)));
    let conditions: Vec<String> = shape.map(str::to_owned).into_iter().chain(clauses).collect();
    if !conditions.is_empty() {
        lines.push(format!("Unless {}; nothing is launched then.", conditions.join(", ")));
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
