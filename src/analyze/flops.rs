//! Floating-point operations.

use super::executions::Executions;
use crate::hlo::raw::{Array, AttrName, InstrRef, Module, Opcode, PrimitiveType, Shape, ShapeId, WindowDim};

/// Maximum size of a window whose padding is looked at.
const MAX_WINDOW: i64 = 1 << 12;

/// Maximum number of positions of a window over an input that is spread.
const MAX_POSITIONS: u64 = 1 << 12;

/// The floating-point operations of one run of a module on one device. A multiplication and an addition are two.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Flops {
    /// Of matrix products and convolutions.
    pub products: f64,
    /// Of elementwise operations and reductions.
    pub elementwise: f64,
    /// Evaluations of functions such as `exponential`.
    pub transcendentals: f64,
}

/// The floating-point operations of all computations that run.
pub fn flops(module: &Module, executions: &Executions<'_>) -> Flops {
    let mut total = Flops::default();
    for id in module.ids().filter(|&id| executions.count(id) > 0.0) {
        let count = executions.count(id);
        for instr in module.instructions(id) {
            let one = instruction_flops(module, instr);
            total.products += count * one.products;
            total.elementwise += count * one.elementwise;
            total.transcendentals += count * one.transcendentals;
        }
    }
    total
}

/// The operations of one run of an instruction, without those of computations that it calls.
pub fn instruction_flops(module: &Module, instr: InstrRef<'_>) -> Flops {
    use Opcode as O;
    let result = || array(module, instr.shape()).map_or(0.0, elements);
    let operand =
        |position: usize| instr.operand(position).and_then(|operand| array(module, operand.shape()));
    match instr.opcode() {
        O::Dot | O::RaggedDot | O::ScaledDot => {
            let contracted = instr.ints(AttrName::LhsContractingDims).unwrap_or_default();
            let sizes = operand(0).map_or(0.0, |lhs| product(lhs, &contracted));
            Flops { products: 2.0 * result() * sizes, ..Flops::default() }
        }
        O::CustomCall => Flops { products: library_product(module, instr, operand(0)), ..Flops::default() },
        O::Convolution => {
            Flops { products: convolution(instr, operand(0), operand(1), result()), ..Flops::default() }
        }
        O::Reduce | O::ReduceWindow | O::SelectAndScatter | O::Scatter | O::Sort => {
            Flops { elementwise: combined(module, instr), ..Flops::default() }
        }
        O::Add
        | O::Subtract
        | O::Multiply
        | O::Divide
        | O::Maximum
        | O::Minimum
        | O::Negate
        | O::Abs
        | O::Remainder
        | O::Clamp
        | O::Compare
        | O::Select
        | O::Floor
        | O::Ceil
        | O::RoundNearestAfz
        | O::RoundNearestEven
        | O::Sign
            if operand(instr.operands().len() - 1).is_some_and(|last| is_float(last.element)) =>
        {
            Flops { elementwise: result(), ..Flops::default() }
        }
        O::Acos
        | O::Acosh
        | O::Asin
        | O::Asinh
        | O::Atan2
        | O::Atanh
        | O::Cbrt
        | O::Cosine
        | O::Cosh
        | O::Erf
        | O::Exponential
        | O::ExponentialMinusOne
        | O::Log
        | O::LogPlusOne
        | O::Logistic
        | O::Power
        | O::Rsqrt
        | O::Sine
        | O::Sinh
        | O::Sqrt
        | O::Tan
        | O::Tanh => Flops { transcendentals: result(), ..Flops::default() },
        _ => Flops::default(),
    }
}

/// The operations of instructions that combine or compare elements by a computation of one operation.
fn combined(module: &Module, instr: InstrRef<'_>) -> f64 {
    let operand = |position: usize| {
        let operand = instr.operand(position).and_then(|operand| array(module, operand.shape()));
        operand.filter(|array| is_float(array.element))
    };
    let count = |position: usize| operand(position).map_or(0.0, elements);
    let result = || array(module, instr.shape()).map_or(0.0, elements);
    let window = || instr.window().unwrap_or_default().iter().map(|dim| dim.size as f64).product::<f64>();
    let num_operands = instr.operands().len();
    match instr.opcode() {
        Opcode::Reduce => {
            let reduced: f64 = (0..num_operands / 2).map(count).sum();
            let kept = if reduced > 0.0 { result() } else { 0.0 };
            (reduced - kept).max(0.0)
        }
        Opcode::ReduceWindow if operand(0).is_some() => result() * (window() - 1.0).max(0.0),
        Opcode::SelectAndScatter => count(1) * window(),
        Opcode::Scatter => (num_operands / 2 + 1..num_operands).map(count).sum(),
        Opcode::Sort => {
            let sorted = operand(0).zip(instr.ints(AttrName::Dimensions));
            sorted.map_or(0.0, |(array, dims)| elements(array) * product(array, &dims).max(1.0).log2().ceil())
        }
        _ => 0.0,
    }
}

/// Two for each element of the kernel that meets one of the input, each input feature of a group, and each batch and output
/// feature. Padding does not count.
fn convolution(instr: InstrRef<'_>, input: Option<&Array>, kernel: Option<&Array>, result: f64) -> f64 {
    let (Some(labels), Some(input), Some(kernel)) = (instr.convolution_dims(), input, kernel) else {
        return 0.0;
    };
    // The input features of one group.
    let mut count = 2.0 * result * product(kernel, &[labels.kernel.batch as i64]);
    let windows = instr.window().unwrap_or_default();
    for (dim, window) in windows.iter().enumerate() {
        let size =
            |array: &Array, dims: &[usize]| dims.get(dim).and_then(|&dim| array.dims.get(dim)?.bound());
        let Some(size) = size(input, &labels.input.spatial) else { continue };
        let positions = window.positions(size).unwrap_or(0);
        count *= if positions == 0 { 0.0 } else { meetings(*window, size, positions) / positions as f64 };
    }
    count
}

/// How often an element of the window meets one of the input, over all positions of the window.
fn meetings(window: WindowDim, input: u64, positions: u64) -> f64 {
    let all = window.size as f64 * positions as f64;
    if window.size > MAX_WINDOW
        || window.base_dilation < 1
        || (window.base_dilation > 1 && positions > MAX_POSITIONS)
    {
        return all;
    }
    let (input, positions) = (input as i128, positions as i128);
    let (stride, dilation) = (i128::from(window.stride), i128::from(window.base_dilation));
    let mut found = 0;
    for element in 0..i128::from(window.size) {
        let start = element * i128::from(window.window_dilation) - i128::from(window.padding.0);
        // Positions p with 0 <= p * stride + start <= end.
        let end = (input - 1) * dilation;
        let first = (-start).max(0).div_euclid(stride) + i128::from((-start).max(0).rem_euclid(stride) > 0);
        let last = (end - start).div_euclid(stride).min(positions - 1);
        if dilation == 1 {
            found += (last - first + 1).max(0);
        } else {
            found +=
                (first..=last).filter(|position| (position * stride + start) % dilation == 0).count() as i128;
        }
    }
    found as f64
}

/// A matrix product as a call of cuBLAS or hipBLAS, whose backend config has the contracted dimensions as strings. The first of
/// several results is the product, the others are its workspace.
fn library_product(module: &Module, instr: InstrRef<'_>, lhs: Option<&Array>) -> f64 {
    const KEY: &str = "\"lhs_contracting_dimensions\":[";
    let config = instr.attr(AttrName::BackendConfig).and_then(|config| config.split_once(KEY));
    let (Some((_, dims)), Some(lhs)) = (config, lhs) else { return 0.0 };
    let dims = dims.split(']').next().unwrap_or_default().split(',');
    let dims: Vec<i64> = dims.filter_map(|dim| dim.trim().trim_matches('"').parse().ok()).collect();
    let result = match module.shapes().get(instr.shape()) {
        Shape::Tuple(results) => results.first().copied(),
        _ => Some(instr.shape()),
    };
    let result = result.and_then(|result| array(module, result)).map_or(0.0, elements);
    2.0 * result * product(lhs, &dims)
}

fn array(module: &Module, shape: ShapeId) -> Option<&Array> {
    match module.shapes().get(shape) {
        Shape::Array(array) => Some(array),
        _ => None,
    }
}

fn elements(array: &Array) -> f64 {
    array.dims.iter().map(|dim| dim.bound().unwrap_or(0) as f64).product()
}

/// The product of the sizes of some dimensions.
fn product(array: &Array, dims: &[i64]) -> f64 {
    let size = |&dim: &i64| {
        usize::try_from(dim).ok().and_then(|dim| array.dims.get(dim)?.bound()).unwrap_or(0) as f64
    };
    dims.iter().map(size).product()
}

fn is_float(element: PrimitiveType) -> bool {
    element.is_float() || matches!(element, PrimitiveType::C64 | PrimitiveType::C128)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hlo::raw::parse;

    #[track_caller]
    fn check(body: &str, expect: Flops) {
        let text = format!(
            "add {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }}\nENTRY e {{ {body} }}"
        );
        let module = parse(text, "flops.hlo").unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        assert_eq!(flops(&module, &Executions::of(&module)), expect);
    }

    #[test]
    fn formulas() {
        let none = Flops::default();
        check(
            "x = f32[4,8,16] parameter(0) y = f32[4,16,32] parameter(1)\n ROOT z = f32[4,8,32] dot(x, y), lhs_batch_dims={0}, \
             rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}",
            Flops { products: 2.0 * 4.0 * 8.0 * 16.0 * 32.0, ..none },
        );
        check(
            "x = f32[1,8,8,4] parameter(0) y = f32[3,3,2,6] parameter(1)\n ROOT z = f32[1,6,6,6] convolution(x, y), \
             window={size=3x3}, dim_labels=b01f_01io->b01f, feature_group_count=2",
            Flops { products: 2.0 * 216.0 * 9.0 * 2.0, ..none },
        );
        check(
            "x = f32[1,8,2] parameter(0) y = f32[3,2,5] parameter(1)\n ROOT z = f32[1,8,5] convolution(x, y), \
             window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f",
            Flops { products: 2.0 * (7.0 + 8.0 + 7.0) * 2.0 * 5.0, ..none },
        );
        check(
            "x = f32[1,4,2] parameter(0) y = f32[3,2,5] parameter(1)\n ROOT z = f32[1,7,5] convolution(x, y), \
             window={size=3 pad=1_1 lhs_dilate=2}, dim_labels=b0f_0io->b0f",
            Flops { products: 2.0 * (3.0 + 4.0 + 3.0) * 2.0 * 5.0, ..none },
        );
        check(
            "x = f32[8,8] parameter(0) zero = f32[] constant(0)\n ROOT w = f32[4,4] reduce-window(x, zero), \
             window={size=2x2 stride=2x2}, to_apply=add",
            Flops { elementwise: 48.0, ..none },
        );
        check(
            "x = f32[9,2] parameter(0) i = s32[3,1] parameter(1) u = f32[3,2] parameter(2)\n ROOT s = f32[9,2] \
             scatter(x, i, u), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, \
             index_vector_dim=1, to_apply=add",
            Flops { elementwise: 6.0, ..none },
        );
        check(
            "x = f32[4,8] parameter(0)\n ROOT s = f32[4,8] sort(x), dimensions={1}, to_apply=add",
            Flops { elementwise: 96.0, ..none },
        );
        check(
            "x = f32[8,4] parameter(0) zero = f32[] constant(0)\n e = f32[8,4] exponential(x)\n \
             ROOT r = f32[8] reduce(e, zero), dimensions={1}, to_apply=add",
            Flops { elementwise: 24.0, transcendentals: 32.0, ..none },
        );
        check(
            r#"x = f32[8,16] parameter(0) y = f32[16,4] parameter(1)
            ROOT z = (f32[8,4], s8[1024]) custom-call(x, y), custom_call_target="__cublas$gemm",
              backend_config={"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"]}}}"#,
            Flops { products: 2.0 * 8.0 * 16.0 * 4.0, ..none },
        );
        check("i = s32[8] parameter(0)\n ROOT j = s32[8] add(i, i)", none);
    }
}
