//! Patterns: their tests and their bindings.

use quote::quote;
use syn::{Expr, Pat, RangeLimits};

use crate::exprs::{member, of_type};
use crate::refuse::{Result, refused};
use crate::translate::Translator;

/// The tests and bindings of a pattern for a value.
#[derive(Debug, Default)]
pub(crate) struct Matching {
    /// The C++ conditions under which it matches.
    pub(crate) tests: Vec<String>,
    /// Its bindings: the name, whether it is mutable, and its C++ expression.
    pub(crate) bindings: Vec<(String, bool, String)>,
}

impl Matching {
    /// Returns the C++ condition, or `None` if the pattern always matches.
    pub(crate) fn test(&self) -> Option<String> {
        (!self.tests.is_empty()).then(|| self.tests.join(" && "))
    }
}

impl Translator<'_> {
    /// Translates a pattern against the C++ lvalue `value`, and marks its bindings in rustc's copy.
    ///
    /// In Rust a single name may be a constant or a variant. The copy writes `name @ _`, which rustc refuses for
    /// those.
    pub(crate) fn pattern(
        &mut self,
        pat: &mut Pat,
        value: &str,
        matching: &mut Matching,
    ) -> Result<()> {
        match pat {
            Pat::Wild(_) => Ok(()),
            Pat::Paren(inner) => self.pattern(&mut inner.pat, value, matching),
            Pat::Type(typed) => self.pattern(&mut typed.pat, value, matching),
            Pat::Ident(ident) if ident.subpat.is_none() && ident.ident == "None" => {
                matching.tests.push(format!("!d({value}).some"));
                *pat = syn::parse_quote_spanned!(ident.ident.span()=> ::core::option::Option::None);
                Ok(())
            }
            Pat::Ident(ident) => {
                let (name, mutable) = (ident.ident.to_string(), ident.mutability.is_some());
                not_of_constants(&ident.ident, &name)?;
                let bound = match (&ident.by_ref, mutable) {
                    (Some(_), true) => format!("borrow_mut(d({value}))"),
                    (Some(_), false) => format!("borrow(d({value}))"),
                    (None, _) => value.to_owned(),
                };
                matching.bindings.push((name, mutable && ident.by_ref.is_none(), bound));
                match &mut ident.subpat {
                    Some((_, inner)) => self.pattern(inner, value, matching),
                    None => {
                        let at = syn::token::At(ident.ident.span());
                        let wild = Pat::Wild(syn::PatWild {
                            attrs: Vec::new(),
                            underscore_token: Default::default(),
                        });
                        ident.subpat = Some((at, Box::new(wild)));
                        Ok(())
                    }
                }
            }
            Pat::Lit(lit) => {
                let literal = self.pattern_literal(&Expr::Lit(lit.clone()))?;
                matching.tests.push(format!("is(d({value}), {literal})"));
                Ok(())
            }
            Pat::Verbatim(_) => {
                refused(pat, "kernels match only numbers, `bool` and enums", "use a guard")
            }
            Pat::Range(range) => {
                if let Some(start) = &range.start {
                    let start = self.pattern_literal(start)?;
                    matching.tests.push(format!("at_least(d({value}), {start})"));
                }
                if let Some(end) = &range.end {
                    let end = self.pattern_literal(end)?;
                    let test = if matches!(range.limits, RangeLimits::Closed(_)) {
                        "at_most"
                    } else {
                        "below"
                    };
                    matching.tests.push(format!("{test}(d({value}), {end})"));
                }
                Ok(())
            }
            Pat::Path(path) => {
                let constant = self.constant(&syn::ExprPath {
                    attrs: Vec::new(),
                    qself: path.qself.clone(),
                    path: path.path.clone(),
                })?;
                let variant = self.named_variant(&path.path);
                matching.tests.push(format!("matches<{variant}>(d({value}), {})", constant.code));
                Ok(())
            }
            Pat::Tuple(tuple) => {
                self.parts(tuple.elems.iter_mut(), value, &format!("d({value})"), matching)
            }
            Pat::TupleStruct(tuple) => {
                if crate::calls::names_some(&tuple.path) {
                    let span = syn::spanned::Spanned::span(&tuple.path);
                    tuple.path = syn::parse_quote_spanned!(span=> ::core::option::Option::Some);
                    matching.tests.push(format!("d({value}).some"));
                    return match tuple.elems.first_mut() {
                        Some(Pat::Rest(_)) | None => Ok(()),
                        Some(inner) => self.pattern(
                            inner,
                            &format!("bind({value}, d({value}).value)"),
                            matching,
                        ),
                    };
                }
                let variant = if of_type(&tuple.path).is_some() {
                    self.named_variant(&tuple.path)
                } else {
                    let (private, path) = (self.private(), &tuple.path);
                    self.hole(quote!(#private::variant_of(&#path)))
                };
                let part = tested_variant(&variant, value, matching);
                if tuple.elems.len() == 1 && matches!(tuple.elems.first(), Some(Pat::Rest(_))) {
                    return Ok(());
                }
                self.parts(tuple.elems.iter_mut(), value, &part, matching)
            }
            Pat::Struct(fields) => {
                let variant = self.named_variant(&fields.path);
                let part = tested_variant(&variant, value, matching);
                for field in &mut fields.fields {
                    // `Vec3 { x, .. }` becomes `Vec3 { x: x, .. }`.
                    field.colon_token.get_or_insert_with(Default::default);
                    let name = member(&field.member);
                    self.pattern(
                        &mut field.pat,
                        &format!("bind({value}, {part}.{name})"),
                        matching,
                    )?;
                }
                Ok(())
            }
            Pat::Reference(reference) => {
                self.pattern(&mut reference.pat, &format!("deref({value})"), matching)
            }
            Pat::Or(or) => self.alternatives(or, value, matching),
            Pat::Slice(slice) => {
                if slice.elems.iter().any(|part| matches!(part, Pat::Rest(_)))
                    || slice
                        .elems
                        .iter()
                        .any(|part| matches!(part, Pat::Ident(id) if id.subpat.is_some()))
                {
                    return refused(
                        slice,
                        "kernels match arrays only whole",
                        "name each element, or use indices",
                    );
                }
                for (at, part) in slice.elems.iter_mut().enumerate() {
                    self.pattern(part, &format!("bind({value}, d({value}).a[{at}])"), matching)?;
                }
                Ok(())
            }
            Pat::Const(_) | Pat::Macro(_) | Pat::Rest(_) | _ => {
                refused(pat, "kernels have no such pattern", "use a name, and `if` or a guard")
            }
        }
    }

    fn parts<'p>(
        &mut self,
        parts: impl ExactSizeIterator<Item = &'p mut Pat>,
        value: &str,
        of: &str,
        matching: &mut Matching,
    ) -> Result<()> {
        for (at, part) in parts.enumerate() {
            if matches!(part, Pat::Rest(_)) {
                return refused(
                    part,
                    "kernels match tuples only whole",
                    "write `_` for each part that is not used",
                );
            }
            self.pattern(part, &format!("bind({value}, {of}.f{at})"), matching)?;
        }
        Ok(())
    }

    /// Translates `a | b` as a disjunction of tests. Bindings in alternatives are refused: they would have different
    /// places.
    fn alternatives(
        &mut self,
        or: &mut syn::PatOr,
        value: &str,
        matching: &mut Matching,
    ) -> Result<()> {
        let mut tests = Vec::new();
        let mut always = false;
        for case in &mut or.cases {
            let mut inner = Matching::default();
            self.pattern(case, value, &mut inner)?;
            if !inner.bindings.is_empty() {
                return refused(
                    case,
                    "alternatives of a pattern bind no names in kernels",
                    "write an arm for each",
                );
            }
            match inner.test() {
                Some(test) => tests.push(format!("({test})")),
                None => always = true,
            }
        }
        if !always {
            matching.tests.push(format!("({})", tests.join(" || ")));
        }
        Ok(())
    }

    /// Declares the bindings of a pattern.
    pub(crate) fn bind(&mut self, matching: &Matching) {
        for (name, mutable, value) in &matching.bindings {
            let cpp = self.declare(name, *mutable);
            self.emit(&format!("auto {cpp} = {value};"));
        }
    }

    /// Translates an irrefutable pattern against a value, and declares its names.
    pub(crate) fn bind_pattern(&mut self, pat: &mut Pat, value: &str) -> Result<()> {
        let mut matching = Matching::default();
        self.pattern(pat, value, &mut matching)?;
        self.bind(&matching);
        Ok(())
    }
}

/// Adds the test for the variant with this hash in C++, and returns the C++ expression with its fields.
///
/// For a structure the test is always true.
fn tested_variant(variant: &str, value: &str, matching: &mut Matching) -> String {
    matching.tests.push(format!("is_variant<{variant}>(d({value}))"));
    format!("variant<{variant}>(d({value}))")
}

/// Refuses a variable with the name of a constant: loops up to constants are unrolled.
pub(crate) fn not_of_constants(at: &impl syn::spanned::Spanned, name: &str) -> Result<()> {
    if crate::counted::is_constants(name) {
        return refused(
            at,
            "this variable has the name of a constant",
            "write the name in lower case",
        );
    }
    Ok(())
}

/// Returns the name of a pattern that is a single name, and whether it is mutable.
pub(crate) fn single_name(pat: &Pat) -> Option<(String, bool)> {
    match pat {
        Pat::Ident(ident) if ident.by_ref.is_none() && ident.subpat.is_none() => {
            Some((ident.ident.to_string(), ident.mutability.is_some()))
        }
        Pat::Paren(inner) => single_name(&inner.pat),
        Pat::Type(typed) => single_name(&typed.pat),
        _ => None,
    }
}
