//! The body of `check`: each declared kernel and instance is compared with the image's.

use crate::emit::cfg;
use crate::function::Function;
use crate::generics::{Instance, TypeParam, declared, names};
use crate::lex::quote;
use crate::method::named;
use crate::param::{Kind, Param};
use crate::primitive::primitives;
use crate::token::{Token, bare};

/// Returns a block that compares each instance of the kernel. `shared` are the struct's type parameters.
pub(crate) fn comparisons(
    function: &Function,
    shared: &[TypeParam],
    krate: &[Token],
) -> Vec<Token> {
    let cfg = cfg(&function.attributes);
    let args: Vec<Token> = function.params.iter().flat_map(|param| arg(param, krate)).collect();
    let named = named(function, krate);
    let mut statements = Vec::new();
    if function.generics.is_empty() {
        let holes: &[(&str, &[Token])] = &[
            ("cfg", &cfg),
            ("cuda", krate),
            ("symbol", &function.symbol.expression(shared, krate)),
            ("args", &args),
            ("named", &named),
        ];
        let check = "$cfg {
            #[allow(unused_imports, reason = \"a kernel may have no parameters\")]
            use $cuda::__private::{Fallback as _, Known as _};
            $cuda::KernelSignatures::check(&kernels, $symbol, &[$args])
                $named?;
        }";
        return quote(check, holes);
    }
    for (symbol, types) in function.symbols().iter().zip(instances(&function.generics)) {
        let one = |instance: &&Instance| quote("$ty,", &[("ty", &primitives(&instance.ty))]);
        let types: Vec<Token> = types.iter().flat_map(one).collect();
        let holes: &[(&str, &[Token])] = &[
            ("symbol", &symbol.expression(shared, krate)),
            ("shared", &names(shared)),
            ("types", &types),
        ];
        statements.extend(quote("compare::<$shared $types>(&kernels, $symbol)?;", holes));
    }
    // A function of its own, where the parameters mean the instance's types.
    let generics = [declared(shared, krate), declared(&function.generics, krate)].concat();
    quote(
        "$cfg {
            fn compare<$generics>(
                kernels: &$cuda::KernelSignatures,
                symbol: &::core::primitive::str,
            ) -> $cuda::Result<()> {
                #[allow(unused_imports, reason = \"a kernel may have no parameters\")]
                use $cuda::__private::{Fallback as _, Known as _};
                $cuda::KernelSignatures::check(kernels, symbol, &[$args])
                    $named
            }
            $statements
        }",
        &[
            ("cfg", &cfg),
            ("generics", &generics),
            ("cuda", krate),
            ("args", &args),
            ("named", &named),
            ("statements", &statements),
        ],
    )
}

/// Returns the lists of instances in the order of [`Function::symbols`]: the last parameter's vary fastest.
pub(crate) fn instances(params: &[TypeParam]) -> Vec<Vec<&Instance>> {
    params.iter().fold(vec![Vec::new()], |lists, param| {
        let longer = |list: &Vec<_>| {
            let each = param.instances.iter();
            each.map(|instance| [&list[..], &[instance]].concat()).collect::<Vec<_>>()
        };
        lists.iter().flat_map(longer).collect()
    })
}

/// Returns what is known of the argument that a launch passes.
fn arg(param: &Param, krate: &[Token]) -> Vec<Token> {
    let view = |element: &[Token], mutable: bool| {
        let view = match (mutable, param.only_read) {
            (true, _) => "DeviceSliceMut",
            (false, true) => "arg::ReadOnly",
            (false, false) => "DeviceSlice",
        };
        let holes: &[(&str, &[Token])] = &[("cuda", krate), ("T", &primitives(element))];
        quote(&format!("$cuda::{view}<'static, $T>"), holes)
    };
    let ty = match &param.kind {
        Kind::Slice { element, mutable, .. } => view(element, *mutable),
        Kind::Nullable { element, mutable, .. } => {
            let view = view(element, *mutable);
            quote("::core::option::Option<$view>", &[("view", &view)])
        }
        Kind::Raw { element, .. } => {
            let holes: &[(&str, &[Token])] = &[("cuda", krate), ("T", &primitives(element))];
            quote("$cuda::arg::RawPointer<$T>", holes)
        }
        // Each call may pass another type.
        Kind::Value { ty, .. } if bare(ty).first().is_some_and(|first| first.is_ident("impl")) => {
            return quote("::core::option::Option::None,", &[]);
        }
        Kind::Value { ty, .. } => primitives(ty),
    };
    quote("(&$cuda::__private::Probe::<$ty>::new()).arg(),", &[("cuda", krate), ("ty", &ty)])
}
