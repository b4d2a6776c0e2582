//! `println!`: on the device it is one call of `printf`, so that lines of threads do not mix.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Expr, ExprLit, Ident, Lit, LitStr, Token};

use crate::exprs::replace;
use crate::refuse::{Result, refused};
use crate::translate::{Translator, Value};

/// The most values that CUDA's `printf` takes.
const MOST: usize = 32;

/// The format and the values of a `println!`.
struct Line {
    format: LitStr,
    values: Vec<Expr>,
    names: Vec<String>,
    /// The number of positional values.
    unnamed: usize,
}

/// A part of a format.
enum Piece {
    Text(String),
    /// The value with this index, and the number of decimals if it is given.
    Value(usize, Option<u8>),
}

impl Line {
    fn parse(args: Punctuated<Expr, Token![,]>, at: &Expr) -> Result<Self> {
        let mut args = args.into_iter();
        let format = match args.next() {
            None => LitStr::new("", Span::call_site()),
            Some(Expr::Lit(ExprLit { lit: Lit::Str(format), .. })) => format,
            Some(_) => {
                return refused(
                    at,
                    "the format is not a string literal",
                    "write `println!(\"{}\", value)`",
                );
            }
        };
        let mut line = Self { format, values: Vec::new(), names: Vec::new(), unnamed: 0 };
        for arg in args {
            match arg {
                Expr::Assign(assign) => {
                    let name = match &*assign.left {
                        Expr::Path(path) => path.path.get_ident().map(ToString::to_string),
                        _ => None,
                    };
                    line.names.push(name.unwrap_or_default());
                    line.values.push(*assign.right);
                }
                value => {
                    line.values.push(value);
                    line.unnamed += 1;
                }
            }
        }
        Ok(line)
    }

    /// Splits the format. Inline variable names become values.
    fn pieces(&mut self) -> Result<Vec<Piece>> {
        let text = self.format.value();
        let (mut pieces, mut next) = (Vec::new(), 0);
        let mut rest = text.as_str();
        while let Some(at) = rest.find(['{', '}']) {
            let (before, after) = rest.split_at(at);
            pieces.push(Piece::Text(before.to_owned()));
            if after.starts_with("{{") || after.starts_with("}}") {
                pieces.push(Piece::Text(after.chars().take(1).collect()));
                rest = &after[2..];
                continue;
            }
            let inner = after.strip_prefix('{').and_then(|inner| inner.split_once('}'));
            let Some((inner, after)) = inner else {
                return refused(
                    &self.format,
                    "a brace of the format has no partner",
                    "write `{{` and `}}` for braces",
                );
            };
            let (name, spec) = inner.split_once(':').unwrap_or((inner, ""));
            let decimals = self.decimals(spec.trim())?;
            let at = match name.trim() {
                "" => {
                    next += 1;
                    next - 1
                }
                name => self.value_of(name)?,
            };
            pieces.push(Piece::Value(at, decimals));
            rest = after;
        }
        pieces.push(Piece::Text(rest.to_owned()));
        let used = pieces.iter().filter(|piece| matches!(piece, Piece::Value(..))).count();
        if used > MOST {
            return refused(
                &self.format,
                &format!("a line of a kernel has at most {MOST} values"),
                "print two lines",
            );
        }
        Ok(pieces)
    }

    fn decimals(&self, spec: &str) -> Result<Option<u8>> {
        if spec.is_empty() {
            return Ok(None);
        }
        match spec.strip_prefix('.').and_then(|decimals| decimals.parse().ok()) {
            Some(decimals) => Ok(Some(decimals)),
            None => refused(
                &self.format,
                &format!("kernels do not print by `{{:{spec}}}`"),
                "write `{}`, or `{:.3}` for 3 decimals; print the parts of a structure or array each",
            ),
        }
    }

    fn value_of(&mut self, name: &str) -> Result<usize> {
        if let Ok(at) = name.parse() {
            return Ok(at);
        }
        if let Some(at) = self.names.iter().position(|known| known == name) {
            return Ok(self.unnamed + at);
        }
        let Ok(ident) = syn::parse_str::<Ident>(name) else {
            return refused(
                &self.format,
                &format!("kernels do not print by `{{{name}}}`"),
                "write `{}` or `{name}`",
            );
        };
        let ident = Ident::new(&ident.to_string(), self.format.span());
        self.names.push(name.to_owned());
        self.values.push(syn::parse_quote!(#ident));
        Ok(self.values.len() - 1)
    }
}

impl Translator<'_> {
    pub(crate) fn println(&mut self, e: &mut Expr) -> Result<Value> {
        let Expr::Macro(mac) = e else { return Ok(Value::unit()) };
        let args =
            Punctuated::<Expr, Token![,]>::parse_terminated.parse2(mac.mac.tokens.clone())?;
        let mut line = Line::parse(args, e)?;
        let pieces = line.pieces()?;
        let values = self.operands(&mut line.values)?;
        // The values are evaluated first, so that a failed check in one of them comes before the output.
        let values: Vec<Value> = values.into_iter().map(|value| self.keep(value)).collect();
        let private = self.private();
        let (mut printed, mut probes) = (Vec::new(), Vec::new());
        for value in &line.values {
            // The span makes rustc report errors at the value.
            let span = value.span();
            let mut probe = self.probe_name(self.probes);
            probe.set_span(probe.span().located_at(span));
            let path = private.clone().into_iter().map(|mut token| {
                token.set_span(span);
                token
            });
            let path: TokenStream = path.collect();
            printed.push(quote_spanned!(span=> #path::printed(&#probe, &(#value))));
            probes.push(self.probes);
            self.probes += 1;
        }
        let (mut rust, mut cpp, mut args) = (String::new(), String::new(), String::new());
        for piece in pieces {
            match piece {
                Piece::Text(text) => {
                    rust.push_str(&text.replace('{', "{{").replace('}', "}}"));
                    cpp.push_str(&c_string(&text));
                }
                Piece::Value(at, decimals) => {
                    let (Some(probe), Some(value)) = (probes.get(at), values.get(at)) else {
                        return refused(
                            &line.format,
                            "the format has more values than follow it",
                            "pass a value for each `{}`",
                        );
                    };
                    let (spec, option) = match decimals {
                        Some(decimals) => (
                            format!(":.{decimals}"),
                            quote!(::core::option::Option::Some(#decimals)),
                        ),
                        None => (String::new(), quote!(::core::option::Option::None)),
                    };
                    rust.push_str(&format!("{{{at}{spec}}}"));
                    cpp.push_str(&self.hole(
                        quote!(::std::string::ToString::to_string(&#private::conversion(&#private::Types::name(&phases_types, #probe, phases_text), #option))),
                    ));
                    args.push_str(&format!(", printed(v({}))", value.code));
                }
            }
        }
        self.effect();
        self.emit(&format!("if (c.effects()) printf(\"{cpp}\\n\"{args});"));
        let rust = LitStr::new(&rust, line.format.span());
        replace(e, |_| quote!(#private::print(::core::format_args!(#rust #(, #printed)*))));
        Ok(Value::unit())
    }
}

/// Escapes text for a C format literal.
fn c_string(text: &str) -> String {
    let plain =
        |byte: u8| byte.is_ascii_alphanumeric() || b" .,:;=+-*/<>()[]{}_!#&|".contains(&byte);
    text.bytes()
        .map(|byte| match byte {
            b'%' => "%%".to_owned(),
            byte if plain(byte) => char::from(byte).to_string(),
            byte => format!("\\{byte:03o}"),
        })
        .collect()
}
