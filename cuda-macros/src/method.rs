//! The methods of one kernel: one launches it, the other returns it.

use crate::check::{check, own_fields};
use crate::emit::{cfg, concat, doc};
use crate::function::Function;
use crate::generics::{angled, declared, names};
use crate::lex::quote;
use crate::over::{self, fill};
use crate::param::{Kind, Param};
use crate::taken::{Taken, taken};
use crate::token::{Span, Token, to_text};
use proc_macro::Delimiter;

/// How a method records a launch: the crate `cuda_tape`, and an expression for the operation.
pub(crate) struct Recording<'t> {
    pub(crate) tape: &'t [Token],
    pub(crate) op: &'t [Token],
}

/// Returns the method that launches a kernel, or that records a launch.
pub(crate) fn method(
    function: &Function,
    krate: &[Token],
    recording: Option<&Recording<'_>>,
) -> Vec<Token> {
    let tape = recording.map(|recording| recording.tape);
    let Taken { mut lifetimes, params, conversions, arguments } = taken(function, krate, tape);
    lifetimes.extend(declared(&function.generics, krate));
    let generics = angled(&lifetimes);
    let checks: Vec<Token> =
        function.clauses.iter().flat_map(|clause| check(clause, function, krate)).collect();
    let others =
        function.attributes.iter().map(|attribute| attribute.tokens.as_slice()).collect::<Vec<_>>();
    let here = function.name.span();
    // The launch is the caller's, or follows from the parameters.
    let (launch_param, given, derived) = match &function.over {
        None => {
            let into = at(here, quote("$cuda::IntoLaunchConfig", &[("cuda", krate)]));
            let convert = "let launch = $cuda::IntoLaunchConfig::into_launch_config(launch);";
            (
                quote("launch: impl $into,", &[("into", &into)]),
                quote(convert, &[("cuda", krate)]),
                Vec::new(),
            )
        }
        Some(over) => (Vec::new(), Vec::new(), over::launch(over, function, krate)),
    };
    let cooperative = match function.cooperative {
        true => quote("let launch = $cuda::LaunchConfig::cooperative(launch);", &[("cuda", krate)]),
        false => Vec::new(),
    };
    let kernel_holes: &[(&str, &[Token])] = &[
        ("cuda", krate),
        ("name", std::slice::from_ref(&function.name)),
        ("access", &[access_name(function)]),
        ("of", &names(&function.generics)),
    ];
    let (instance, kernel) = match function.generics.as_slice() {
        [] => (Vec::new(), quote("$cuda::__private::Declared::kernel(&self.$name)", kernel_holes)),
        _ => {
            (quote("let kernel = Self::$access::<$of>(self)?;", kernel_holes), quote("kernel", &[]))
        }
    };
    let arguments = [Token::Group(Delimiter::Parenthesis, arguments, here)];
    let (name, on, enqueue) = match recording {
        None => (
            function.name.clone(),
            quote("stream: &$cuda::Stream,", &[("cuda", krate)]),
            quote(
                "// SAFETY: of a `safe fn`, the author of `unsafe in` promised that its kernel stays inside
                // its arguments, and does not race, in the shapes and under the clauses that were just
                // checked; of an `unsafe fn`, our caller promises it.
                unsafe { $launch($kernel, stream, launch, $arguments) } $named",
                &[
                    ("launch", &at(here, quote("$cuda::Kernel::launch", &[("cuda", krate)]))),
                    ("kernel", &kernel),
                    ("arguments", &arguments),
                    ("named", &named(function, krate)),
                ],
            ),
        ),
        Some(Recording { tape, op }) => (
            Token::Ident(format!("record_{}", function.text), function.name.span()),
            quote("recorder: &mut $tape::Recorder<'_>,", &[("tape", tape)]),
            quote(
                "$tape::Recorder::launch(recorder, $op, launch, $arguments)",
                &[("tape", tape), ("op", op), ("arguments", &arguments)],
            ),
        ),
    };
    quote(
        "$attributes $docs
        #[allow(clippy::too_many_arguments, reason = \"the kernel decides how many there are\")]
        #[allow(dead_code, reason = \"a source may have more kernels than the program launches\")]
        $visibility $unsafety fn $name $generics (
            &self,
            $on
            $launch_param
            $params
        ) -> $cuda::Result<()> {
            $warnings
            $instance
            $given
            $conversions
            $fields
            $shape
            $filled
            $derived
            $cooperative
            $checks
            $enqueue
        }",
        &[
            ("attributes", &others.concat()),
            ("docs", &method_docs(function, recording.is_some())),
            ("visibility", &visibility(function)),
            ("unsafety", &if function.safe { Vec::new() } else { quote("unsafe", &[]) }),
            ("name", &[name]),
            ("on", &on),
            ("generics", &generics),
            ("cuda", krate),
            ("params", &params),
            ("launch_param", &launch_param),
            ("given", &given),
            ("filled", &fill(function, krate)),
            ("derived", &derived),
            ("cooperative", &cooperative),
            ("warnings", &if recording.is_some() { Vec::new() } else { warnings(function) }),
            ("conversions", &conversions),
            ("fields", &own_fields(function)),
            ("shape", &in_x_alone(function, krate)),
            ("checks", &checks),
            ("enqueue", &enqueue),
            ("instance", &instance),
        ],
    )
}

/// Returns what gives an error about arguments the declared names, behind an expression that returns it.
pub(crate) fn named(function: &Function, krate: &[Token]) -> Vec<Token> {
    let text_of = |text: &str| Token::string(text.trim_start_matches("r#"), Span::Macro);
    let name_of = |param: &Param| quote("$text,", &[("text", &[text_of(&param.text)])]);
    let names: Vec<Token> = function.params.iter().flat_map(name_of).collect();
    quote(
        ".map_err(|error| $cuda::__private::named(error, $text, &[$names]))",
        &[("cuda", krate), ("text", &[text_of(&function.text)]), ("names", &names)],
    )
}

/// Returns the checks that a safe method's launches have extent 1 in the dimensions without a clause.
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

/// Returns a use of a deprecated constant for each integer that no clause reads: rustc warns at the parameter.
fn warnings(function: &Function) -> Vec<Token> {
    let each = function.unbounded().flat_map(|param| {
        let note = format!(
            "no clause of `{}` reads `{}`: bound it in the `where`, or mark it `#[any]` if the kernel is sound for every value",
            function.text, param.text
        );
        quote(
            "const _: () = {
                #[deprecated(note = $note)]
                #[allow(non_upper_case_globals, reason = \"the warning names the parameter\")]
                const $name: () = ();
                $name
            };",
            &[
                ("note", &[Token::string(&note, Span::Macro)]),
                ("name", std::slice::from_ref(&param.name)),
            ],
        )
    });
    each.collect()
}

/// Returns the visibility of a function's methods.
pub(crate) fn visibility(function: &Function) -> Vec<Token> {
    match function.visibility.as_slice() {
        [] => quote("pub", &[]),
        written => written.to_vec(),
    }
}

/// `tokens`, as if they were written at `span`.
pub(crate) fn at(span: Span, tokens: Vec<Token>) -> Vec<Token> {
    tokens.into_iter().map(|token| token.with_span(span)).collect()
}

fn access_name(function: &Function) -> Token {
    Token::Ident(format!("{}_kernel", function.text), function.name.span())
}

/// Returns the method that shows the kernel itself.
pub(crate) fn access(function: &Function, krate: &[Token]) -> Vec<Token> {
    let visibility = visibility(function);
    let text = &function.text;
    let generics = angled(&declared(&function.generics, krate));
    let mut index = quote("0usize", &[]);
    for param in &function.generics {
        let count = Token::Literal(format!("{}usize", param.instances.len()), Span::Macro);
        let found = param.found(text, &function.generics, krate);
        let holes: &[(&str, &[Token])] =
            &[("index", &index), ("count", &[count]), ("found", &found)];
        index = quote("($index * $count + $found.0)", holes);
    }
    let (template, docs) = match function.generics.as_slice() {
        [] => (
            "$cfg $docs
            #[allow(dead_code, reason = \"few launches need more than the method\")]
            #[must_use]
            $visibility fn $access(&self) -> &$cuda::Kernel {
                $cuda::__private::Declared::kernel(&self.$name)
            }",
            doc(&format!("The kernel `{text}`, for its attributes and occupancy.")),
        ),
        _ => (
            "$cfg $docs
            #[allow(dead_code, reason = \"few launches need more than the method\")]
            $visibility fn $access $generics (&self) -> $cuda::Result<&$cuda::Kernel> {
                $cuda::__private::DeclaredInstances::kernel(&self.$name, $index)
            }",
            [
                format!("The kernel `{text}` for these types, for its attributes and occupancy."),
                String::new(),
                "# Errors".to_owned(),
                "There is no instance for these types.".to_owned(),
            ]
            .iter()
            .flat_map(|line| doc(line))
            .collect(),
        ),
    };
    quote(
        template,
        &[
            ("cfg", &cfg(&function.attributes)),
            ("docs", &docs),
            ("visibility", &visibility),
            ("access", &[access_name(function)]),
            ("generics", &generics),
            ("cuda", krate),
            ("name", std::slice::from_ref(&function.name)),
            ("index", &index),
        ],
    )
}

/// Returns the generated documentation of a kernel's method, which follows the user's.
fn method_docs(function: &Function, records: bool) -> Vec<Token> {
    let user = function.attributes.iter().filter(|attribute| attribute.name == "doc");
    let user = concat(user);
    let mut lines = Vec::new();
    if records {
        if !user.is_empty() {
            lines.push(String::new());
        }
        lines.push(format!(
            "Launches the kernel `{}` and records the launch, for gradients.",
            function.text
        ));
    } else if user.is_empty() {
        lines.push(format!("Enqueues the kernel `{}` on `stream`.", function.text));
    }
    if let Some(over) = &function.over {
        lines.push(String::new());
        lines.push(over.describe(&function.params));
    }
    if function.cooperative {
        lines.push(String::new());
        lines.push(
            "The launch is cooperative: all blocks are resident at the same time.".to_owned(),
        );
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
    let fits = function.params.iter().filter(|param| param.default.is_some());
    let fits = fits.map(|param| format!("`{}` fits its type", param.text));
    let shape = shape.map(str::to_owned);
    let conditions: Vec<String> = shape.into_iter().chain(fits).chain(clauses).collect();
    if !conditions.is_empty() {
        lines.push(format!("Unless {}; nothing is launched then.", conditions.join(", ")));
    }
    if !function.generics.is_empty() {
        lines.push("There is no instance of the kernel for these types.".to_owned());
    }
    let is_passed = |param: &Param| {
        param.default.is_none() && matches!(param.kind, Kind::Value { integer: true, .. })
    };
    if function.params.iter().any(is_passed) {
        lines.push("An integer is out of the range of the kernel's.".to_owned());
    }
    lines.push("The error of the launch.".to_owned());
    if records {
        lines.push("The kernel has no correct adjoint: the error names the lines.".to_owned());
    }
    lines.iter().flat_map(|line| doc(line)).collect()
}
