//! `#[kernel]`.

mod assemble;
mod elements;
mod host;
pub(crate) mod parts;
mod signature;
pub(crate) mod straight;

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Expr, Item, ItemFn, Stmt};

use crate::options::Options;
use crate::refuse::{Result, no_cfg, refused};
use crate::translate::Translator;
use signature::Signature;

/// The parallel loop of a kernel: the last statement of its body.
enum Loop<'b> {
    Each { out: &'b mut Expr, closure: &'b mut syn::ExprClosure },
    Blocks(parts::Blocks<'b>),
}

/// What a translated loop runs over.
enum Over {
    /// Elements of so many dimensions.
    Elements(u32),
    /// Blocks: their type, and the columns of their threads, in C++.
    Blocks { block: String, columns: String },
}

/// Returns a path without the generic arguments of its last segment, for a `use`.
pub(crate) fn without_arguments(path: &syn::Path) -> syn::Path {
    let mut path = path.clone();
    if let Some(last) = path.segments.last_mut() {
        last.arguments = syn::PathArguments::None;
    }
    path
}

/// Expands `#[kernel]`.
pub(crate) fn expand(
    args: TokenStream,
    item: TokenStream,
    library: TokenStream,
) -> Result<TokenStream> {
    let options = Options::parse(args, library)?;
    let item: Item = syn::parse2(item)?;
    let Item::Fn(function) = &item else {
        return refused(
            &item,
            "`#[kernel]` is for functions",
            "put it on `fn name(…) { …; each(out, |i, out| …) }`",
        );
    };
    let signature = Signature::parse(function, &options)?;
    Ok(checked(&item, function, &signature, &options).unwrap_or_else(|error| {
        let (error, stubs) = (error.to_compile_error(), crate::stubs::kernel(function, &options));
        quote!(#error #stubs)
    }))
}

fn checked(
    item: &Item,
    function: &ItemFn,
    signature: &Signature,
    options: &Options,
) -> Result<TokenStream> {
    no_cfg(item)?;
    options.no_references(item)?;
    host::check(function, signature)?;
    let translated = translate(function.clone(), signature, options)?;
    let host = host::extent(function, &translated.statements, options)?;
    let names = crate::hygiene::check(item)?;
    let kernel = assemble::assemble(function, signature, options, &host, &translated);
    Ok(quote!(#kernel #names))
}

/// Rustc's copy of the body, and the C++.
struct Translated {
    statements: Vec<Stmt>,
    write: TokenStream,
    probes: Vec<syn::Ident>,
    /// What the host evaluates before the loop.
    host: TokenStream,
    named: Vec<syn::Path>,
    carries: u32,
}

fn translate(mut function: ItemFn, signature: &Signature, options: &Options) -> Result<Translated> {
    let mut s = Translator::new(options);
    let over_blocks = function.block.stmts.last().is_some_and(parts::is_blocks);
    let mut parameters = String::new();
    let mut prelude = String::new();
    for param in &signature.params {
        let ty = match (&param.kind, &param.element) {
            (signature::Kind::Structure, element) => {
                s.hole(quote!(phases_text.structure::<#element>()))
            }
            (_, element) => s.ty(element)?,
        };
        let cpp = s.declare(&param.name.to_string(), param.mutable);
        s.named.extend(param.atomic.clone());
        match param.kind {
            signature::Kind::Value => {
                parameters.push_str(&format!(", passed<{ty}> {cpp}_v"));
                prelude.push_str(&format!("auto&& {cpp} = taken({cpp}_v);\n"));
            }
            signature::Kind::Read | signature::Kind::Write => {
                let access =
                    if matches!(param.kind, signature::Kind::Read) { "const " } else { "" };
                // An element of an output changes its thread at a barrier of a block, which compilers may not see for such a
                // pointer. Without blocks each element belongs to one thread.
                let restrict = match param.kind {
                    signature::Kind::Write if over_blocks => "",
                    _ => "__restrict__ ",
                };
                parameters.push_str(&format!(", {access}{ty}* {restrict}{cpp}_p, len {cpp}_n"));
                prelude.push_str(&format!("slice<{access}{ty}> {cpp}{{{cpp}_p, {cpp}_n}};\n"));
                s.slices.push(cpp);
            }
            signature::Kind::Shared => {
                parameters.push_str(&format!(", {ty}* {cpp}_p, len {cpp}_n"));
                prelude.push_str(&format!("atomics<{ty}> {cpp}{{{cpp}_p, {cpp}_n}};\n"));
                s.atomics.push(cpp);
            }
            signature::Kind::Structure => {
                parameters.push_str(&format!(", const {ty} {cpp}"));
                s.structures.push(cpp);
            }
        }
    }
    let (over, statements) = body(&mut s, &mut function, signature)?;
    let text = std::mem::take(&mut s.out);
    let file =
        s.hole(quote!(::std::string::ToString::to_string(&phases_text.file(::core::file!()))));
    let library = &options.library;
    let number = s.hole(quote!(::std::string::ToString::to_string(&#library::text::Text::kernel_number(phases_text))));
    let source = s.hole(quote!(::std::format!("{:?}", ::core::file!())));
    let entry = s.hole(quote!(Self::KERNEL.entry()));
    let checks = s.overflow_hole();
    let line = signature.line;
    let min_blocks =
        options.min_blocks.as_ref().map(syn::LitInt::base10_parse::<u32>).transpose()?;
    if let Over::Blocks { block, columns } = &over {
        let header = s.hole(quote!({
            phases_text.blocks();
            String::new()
        }));
        let (memory, index, failures) = match s.carries {
            0 if text.contains("tile_of<") => ("", "const plane_index block_index{};", ""),
            0 => ("", "const unsigned block_index = blockIdx.x;", ""),
            _ => (
                ", carry_memory* carried",
                "const turn block_turn = take_turn(carried, unsigned(sx * sy));\n\
                 const unsigned block_index = block_turn.at;",
                ", &carried->ended, block_turn.tag",
            ),
        };
        let blocks =
            min_blocks.map(|blocks| format!(" PHASES_LEAST({blocks})")).unwrap_or_default();
        let text = format!(
            "{header}#line {line} {source}\nextern \"C\" __global__ void __launch_bounds__({block}::threads{blocks}) {entry}(\
             fault* slot{parameters}, len sx, len sy, len sz{memory}) {{\nusing B = {block};\n{index}\nconst \
             block_now<{checks}> c{{thread{{slot, {number}, thread::blocks_of + {columns}, \
             block_index + 1{failures}}}, {file}}};\n{prelude}{text}}}\n"
        );
        return Ok(finished(s, &text, statements));
    }
    let Over::Elements(dimensions) = over else { return Ok(finished(s, "", statements)) };
    let index = match dimensions {
        1 => "const len gx = len(blockIdx.x) * PHASES_BLOCK(256, x) + threadIdx.x;\nif (gx >= sx) return;\n"
            .to_owned(),
        _ => {
            let z = if dimensions == 3 {
                "const len gz = blockIdx.z;\n"
            } else {
                "const len gz = 0;\n"
            };
            format!(
                "const len gx = len(blockIdx.x) * PHASES_BLOCK(32, x) + threadIdx.x, \
                 gy = len(blockIdx.y) * PHASES_BLOCK(8, y) + threadIdx.y;\n{z}\
                 if (gx >= sx || gy >= sy) return;\n"
            )
        }
    };
    // The second bound is the number of blocks on a multiprocessor that are enough. ptxas then takes registers instead of local
    // memory (a ray tracer: 0.96 of the time on an H200), or to keep loads ahead (SpMV: 0.76).
    if let Some(number) = options.min_blocks.as_ref().filter(|_| min_blocks > Some(8)) {
        return refused(
            number,
            "a multiprocessor has 2,048 threads, which are 8 blocks of a loop over elements",
            "write a number from 1 to 8, or use `blocks` with fewer threads",
        );
    }
    let blocks = min_blocks.unwrap_or(if s.reads_ahead { 3 } else { 1 });
    let text = format!(
        "#line {line} {source}\nextern \"C\" __global__ void PHASES_BOUNDS(256, {blocks}) {entry}(\
         fault* slot{parameters}, len sx, len sy, len sz) {{\n{index}\
         const now<{checks}> c{{thread{{slot, {number}, {dimensions}}}, {file}}};\n{prelude}{text}}}\n"
    );
    Ok(finished(s, &text, statements))
}

fn finished(mut s: Translator<'_>, text: &str, statements: Vec<Stmt>) -> Translated {
    let write = s.writer(text);
    let probes = (0..s.probes).map(|number| s.probe_name(number)).collect();
    let named = std::mem::take(&mut s.named);
    let host = std::mem::take(&mut s.host);
    Translated { statements, write, probes, host, named, carries: s.carries }
}

/// Translates the statements of a kernel. Returns the dimensions of its loop, and rustc's copy.
fn body(
    s: &mut Translator<'_>,
    function: &mut ItemFn,
    signature: &Signature,
) -> Result<(Over, Vec<Stmt>)> {
    let mut statements = std::mem::take(&mut function.block.stmts);
    let Some(last) = statements.pop() else {
        return refused(
            &function.sig,
            "the kernel has no loop",
            "end it with `each(out, |i, out| …)`",
        );
    };
    s.no_shadows(&statements)?;
    s.items.push(items(&statements));
    let private = s.private();
    let mut copy = Vec::new();
    let over_blocks = parts::is_blocks(&last);
    for name in elements::linear_outputs(&last) {
        if let Some(cpp) = s.local(&name).map(|local| local.cpp.clone()) {
            s.emit(&format!("{cpp}.n = sx;"));
        }
    }
    for mut statement in statements {
        if let Some(condition) = host::condition_of(&statement)? {
            s.host.extend(host::test(&condition, &private));
            // The host has checked it. It also gives slices their lengths.
            for (slice, len) in host::equal_lengths(&condition) {
                let alone = matches!(len, Expr::Path(_) | Expr::MethodCall(_));
                // Compilers find nothing in a product, but for the shape of a matrix that blocks load.
                let is_shape = over_blocks && host::is_product(&len);
                if !(alone || is_shape) {
                    continue;
                }
                let Some(param) = signature.slice(&slice) else { continue };
                let Some(cpp) = s.local(&param.name.to_string()).map(|local| local.cpp.clone())
                else {
                    continue;
                };
                let mut len = len;
                // A copy of rustc's is not needed for what the host has evaluated, but its literals are.
                let (emitted, value) = s.captured(|s| s.operand(&mut len))?;
                s.out.push_str(&emitted);
                s.emit(&match alone {
                    true => format!("{cpp}.n = len({}.v);", value.code),
                    false => format!(
                        "given({cpp}.n, [&](auto c) {{ return {}; }}(sure(c, yes{{}})));",
                        value.code
                    ),
                });
                // The length on a device is this value, so the host compares with the same.
                let name = &param.name;
                s.host.extend(quote!(#private::same_length(#name.len(), #len);));
                copy.push(syn::parse_quote!(let _: usize = #len;));
            }
            continue;
        }
        if let Stmt::Local(local) = &statement {
            let mut names = Vec::new();
            crate::blocks::names_of(&local.pat, &mut names);
            if let Some(name) =
                names.iter().find(|name| signature.slice(&name.to_string()).is_some())
            {
                return refused(
                    name,
                    "this is the name of a parameter with elements",
                    "give the variable another name: the launch has its lengths by theirs",
                );
            }
        }
        let value = s.statements(std::slice::from_mut(&mut statement))?;
        quote::ToTokens::to_tokens(&statement, &mut s.host);
        if value.never {
            return refused(
                &statement,
                "the kernel ends before its loop",
                "use `assert!` for what must hold",
            );
        }
        copy.push(statement);
    }
    let mut last = last;
    let (over, function) = match loop_of(&mut last)? {
        Loop::Each { out, closure: each } => {
            let dimensions = elements::outputs(s, out, signature)?;
            elements::closure(s, each, dimensions)?;
            (Over::Elements(dimensions), quote!(each))
        }
        Loop::Blocks(mut blocks) => {
            let (block, columns) = parts::translate(s, &mut blocks, signature)?;
            let function = match s.carries {
                0 => quote!(blocks),
                _ => quote!(blocks_in_order),
            };
            (Over::Blocks { block, columns }, function)
        }
    };
    if let Some(Expr::Call(call)) = expression_of(&mut last) {
        let private = s.private();
        if let Expr::Path(path) = &*call.func {
            s.named.push(path.path.clone());
        }
        *call.func = Expr::Verbatim(quote!(#private::#function));
        if s.carries > 0 {
            let carries = s.carries as usize;
            call.args.insert(2, syn::parse_quote!(#carries));
        }
        // The library compiles the loop for processors with FMA, too. A closure that is not part of it would not be.
        if let Some(Expr::Closure(closure)) = call.args.last_mut() {
            closure.attrs.push(syn::parse_quote!(#[inline(always)]));
        }
    }
    copy.push(last);
    Ok((over, copy))
}

/// Returns the constants and imports among statements.
pub(crate) fn items(statements: &[Stmt]) -> Vec<TokenStream> {
    let items = statements.iter().filter_map(|statement| match statement {
        Stmt::Item(item @ (Item::Const(_) | Item::Use(_))) => Some(quote!(#item)),
        _ => None,
    });
    items.collect()
}

fn expression_of(statement: &mut Stmt) -> Option<&mut Expr> {
    match statement {
        Stmt::Expr(e, _) => Some(e),
        _ => None,
    }
}

fn loop_of(statement: &mut Stmt) -> Result<Loop<'_>> {
    let copy = statement.clone();
    let call = match expression_of(statement) {
        Some(Expr::Call(call)) => Some((parts::called_name(call).unwrap_or_default(), call)),
        _ => None,
    };
    match call {
        Some((name, call)) if name == "blocks" => {
            let mut args = call.args.iter_mut();
            match (args.next(), args.next(), args.next(), args.next()) {
                (Some(threads), Some(parts), Some(Expr::Closure(closure)), None) => {
                    Ok(Loop::Blocks(parts::Blocks { threads, parts, closure }))
                }
                _ => refused(
                    &copy,
                    "`blocks` takes threads, parts of an output, and a closure",
                    "write `blocks(Threads::<256>, chunks(out, 256), |block, out| …)`",
                ),
            }
        }
        Some((name, call)) if name == "each" => {
            let mut args = call.args.iter_mut();
            match (args.next(), args.next(), args.next()) {
                (Some(out), Some(Expr::Closure(closure)), None) => Ok(Loop::Each { out, closure }),
                _ => refused(
                    &copy,
                    "`each` takes an output and a closure",
                    "write `each(out, |i, out| …)`",
                ),
            }
        }
        _ => refused(
            &copy,
            "the last statement of a kernel is its parallel loop",
            "end it with `each(out, |i, out| …)`, where `out` is a parameter `&mut [T]`, or with `blocks(…)`",
        ),
    }
}

/// Returns a statement that defines `phases_checks`: whether this crate's integers check overflows.
pub(crate) fn overflow_checks(private: &TokenStream) -> TokenStream {
    quote! {
        static PHASES_CHECKS: ::std::sync::OnceLock<bool> = ::std::sync::OnceLock::new();
        let phases_checks = *PHASES_CHECKS.get_or_init(|| {
            #private::overflow_checks(|x: u8| x + 1)
        });
    }
}

/// Returns the text with each line of a statement marked as the statement's in the user's file: the C++ of a statement
/// has several lines.
fn with_lines(text: &str) -> String {
    let (mut marked, mut line, mut marks) = (String::new(), "", true);
    for part in text.split_inclusive('\n') {
        if let Some(rest) = part.strip_prefix("#line ") {
            line = rest.trim_end().split(' ').next().unwrap_or_default();
        } else if !marks && !line.is_empty() && !part.starts_with('#') {
            marked.push_str(&format!("#line {line}\n"));
        }
        marks = part.starts_with("#line ");
        marked.push_str(part);
    }
    marked
}

impl Translator<'_> {
    /// Returns a hole for whether overflows are checked.
    pub(crate) fn overflow_hole(&mut self) -> String {
        self.hole(quote!(::std::string::ToString::to_string(&phases_checks)))
    }

    /// Notes the names of an item of the loop: memory that outlives the thread is written through them.
    pub(crate) fn writable_names(&mut self, item: &syn::Pat) {
        match item {
            syn::Pat::Tuple(tuple) => tuple.elems.iter().for_each(|part| self.writable_names(part)),
            syn::Pat::Paren(inner) => self.writable_names(&inner.pat),
            syn::Pat::Ident(ident) => self.writable.push(ident.ident.to_string()),
            _ => {}
        }
    }

    /// Returns the C++ names of the items of the loop that are numbers.
    fn number_items(&self, item: &syn::Pat) -> Vec<String> {
        let items: Vec<&syn::Pat> = match item {
            syn::Pat::Tuple(tuple) => tuple.elems.iter().collect(),
            item => vec![item],
        };
        let numbers =
            items.iter().zip(&self.outputs).filter_map(|(item, (_, is_number))| match item {
                syn::Pat::Ident(name) if *is_number => self.local(&name.ident.to_string()),
                _ => None,
            });
        numbers.map(|local| local.cpp.clone()).collect()
    }

    /// Returns code that fills the holes of a text of C++.
    pub(crate) fn writer(&mut self, text: &str) -> TokenStream {
        let text = &with_lines(text);
        let (private, holes) = (self.private(), &self.holes);
        quote! {
            #private::fill(#text, &[#(#holes),*])
        }
    }
}
