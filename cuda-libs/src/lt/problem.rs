//! What a plan computes.

use cuda_sys::cublaslt::cublasLtEpilogue_t;

use crate::error::{Error, Result};
use crate::mat::{Layout, Order};

/// The function of each element of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Activation {
    /// The element.
    #[default]
    Identity,
    /// The element if it is positive, else 0.
    Relu,
    /// The Gaussian error linear unit, in the approximation by `tanh`, which cuBLASLt computes to some 11 bits.
    Gelu,
    /// The gradient of ReLU: the element where the saved input was positive, else 0. An input of 0 counts as positive in
    /// cuBLASLt 13.1.
    ReluGradient,
    /// The gradient of GELU: the element times the derivative at the saved input.
    GeluGradient,
}

/// What a [`Plan`](super::Plan) computes: `d = activation(alpha a b + beta d + bias)`, of each matrix of a batch.
///
/// The layouts have the meaning that they have for [`Blas::gemm`](crate::Blas::gemm). 8-bit floats have restrictions on most
/// devices: `a` is row-major, `b` is column-major, as the transposed view of a row-major matrix is, and all sizes are
/// multiples of 16.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Problem {
    pub(crate) a: Layout,
    pub(crate) b: Layout,
    pub(crate) d: Layout,
    /// Whether the elements of a and of b are taken as their conjugates.
    pub(super) conjugate: [bool; 2],
    pub(crate) activation: Activation,
    pub(super) bias: bool,
    pub(crate) save: bool,
    pub(crate) scales: bool,
    pub(crate) amax: bool,
    pub(crate) on_device: bool,
    pub(super) alignment: usize,
}

impl Problem {
    /// The product of matrices of these layouts.
    #[must_use]
    pub fn new(a: Layout, b: Layout, d: Layout) -> Self {
        let (a, b, d) = (a.stated(), b.stated(), d.stated());
        Self {
            a,
            b,
            d,
            conjugate: [false; 2],
            activation: Activation::Identity,
            bias: false,
            save: false,
            scales: false,
            amax: false,
            on_device: false,
            alignment: 16,
        }
    }

    /// Plans for conjugated views of complex matrices, as [`Mat::adjoint`](crate::Mat::adjoint) returns them: of `a`, of
    /// `b`, or of both. cuBLASLt conjugates only matrices of the other order than that of `d`.
    #[must_use]
    pub fn conjugated(self, a: bool, b: bool) -> Self {
        Self { conjugate: [a, b], ..self }
    }

    /// Adds a vector to each row of `d`, which is row-major: [`Extras::bias`](super::Extras::bias).
    #[must_use]
    pub fn bias(self) -> Self {
        Self { bias: true, ..self }
    }

    /// Sets the activation.
    #[must_use]
    pub fn activation(self, activation: Activation) -> Self {
        Self { activation, ..self }
    }

    /// Saves what the gradient of the activation needs: [`Extras::save`](super::Extras::save).
    #[must_use]
    pub fn save(self) -> Self {
        Self { save: true, ..self }
    }

    /// Multiplies 8-bit operands by scales, and an 8-bit result: [`Extras::scales`](super::Extras::scales).
    #[must_use]
    pub fn scales(self) -> Self {
        Self { scales: true, ..self }
    }

    /// Returns the greatest absolute value of an 8-bit result before its scale: [`Extras::amax`](super::Extras::amax).
    #[must_use]
    pub fn amax(self) -> Self {
        Self { amax: true, ..self }
    }

    /// Takes alpha and beta from [`DeviceScalar`](crate::blas::DeviceScalar)s. The default is numbers.
    #[must_use]
    pub fn factors_on_device(self) -> Self {
        Self { on_device: true, ..self }
    }

    /// Sets of how many bytes the addresses of all memory are multiples: a power of two. The default is 16. Those of whole
    /// buffers are multiples of 256. A greater one may allow a faster algorithm.
    #[must_use]
    pub fn alignment(self, bytes: usize) -> Self {
        Self { alignment: bytes, ..self }
    }

    /// Returns whether the activation reads saved inputs.
    pub(super) fn is_gradient(&self) -> bool {
        matches!(self.activation, Activation::ReluGradient | Activation::GeluGradient)
    }

    /// Returns whether there is memory with saved inputs, to read or to write.
    pub(super) fn has_saved(&self) -> bool {
        self.save || self.is_gradient()
    }

    /// Returns the epilogue, after checks of what it depends on.
    pub(super) fn epilogue(&self) -> Result<cublasLtEpilogue_t> {
        use cublasLtEpilogue_t as E;
        let invalid =
            |argument, message: &'static str| Err(Error::invalid("plan", argument, message));
        if !self.alignment.is_power_of_two() || self.alignment > 256 {
            return invalid("alignment", "is no power of two from 1 to 256");
        }
        if self.bias && self.d.order == Order::ColumnMajor {
            return invalid(
                "d",
                "is column-major, but cuBLASLt adds a bias to the rows of a row-major d: plan the transposed product",
            );
        }
        Ok(match (self.activation, self.bias, self.save) {
            (Activation::Identity, false, false) => E::CUBLASLT_EPILOGUE_DEFAULT,
            (Activation::Identity, true, false) => E::CUBLASLT_EPILOGUE_BIAS,
            (Activation::Relu, false, false) => E::CUBLASLT_EPILOGUE_RELU,
            (Activation::Relu, true, false) => E::CUBLASLT_EPILOGUE_RELU_BIAS,
            (Activation::Relu, false, true) => E::CUBLASLT_EPILOGUE_RELU_AUX,
            (Activation::Relu, true, true) => E::CUBLASLT_EPILOGUE_RELU_AUX_BIAS,
            (Activation::Gelu, false, false) => E::CUBLASLT_EPILOGUE_GELU,
            (Activation::Gelu, true, false) => E::CUBLASLT_EPILOGUE_GELU_BIAS,
            (Activation::Gelu, false, true) => E::CUBLASLT_EPILOGUE_GELU_AUX,
            (Activation::Gelu, true, true) => E::CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
            (Activation::ReluGradient, false, false) => E::CUBLASLT_EPILOGUE_DRELU,
            (Activation::GeluGradient, false, false) => E::CUBLASLT_EPILOGUE_DGELU,
            (_, _, true) => return invalid("save", "is for ReLU and GELU"),
            (_, true, false) => return invalid("bias", "is not added before a gradient"),
        })
    }
}
