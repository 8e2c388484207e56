use crate::{
    base::{ArrayShape, DType},
    hlo::{Value, value_tree},
    model::Linear,
    templates::{Instantiator, TemplateError, template_args},
};

/// The probability that dropout makes an element zero: above 0, below 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DropoutRate(f64);

impl DropoutRate {
    /// `None` where dropout would keep all elements, none, or is not a probability.
    pub fn new(rate: f64) -> Option<Self> {
        (rate > 0.0 && rate < 1.0).then_some(Self(rate))
    }

    /// The random words below this are those of elements that are kept.
    fn limit(self) -> usize {
        // Within u32 by the range of the rate; a rate below 2^-33 keeps all but one word.
        ((1.0 - self.0) * 2_f64.powi(32)).round().min(f64::from(u32::MAX)) as usize
    }
}

/// What the random words of one linear of one layer in one step follow from, `u32[]` each.
#[derive(Clone, Copy)]
pub struct DropoutKey<'b> {
    /// The first word.
    pub k0: Value<'b>,
    /// The second word.
    pub k1: Value<'b>,
}

value_tree! { DropoutKey { k0, k1 } }

/// The key of a linear; `seed`, `step` and `layer` are `u32[]`.
///
/// # Errors
/// If the template is invalid.
pub fn dropout_key<'b>(
    templates: &Instantiator<'_>,
    seed: Value<'b>,
    step: Value<'b>,
    layer: Value<'b>,
    linear: Linear,
) -> Result<DropoutKey<'b>, TemplateError> {
    let linear = seed.builder().scalar(DType::U32, f64::from(linear as u32));
    let [k0, k1] = random_words(templates, DropoutKey { k0: seed, k1: step }, [layer, linear])?;
    Ok(DropoutKey { k0, k1 })
}

/// `x [batch, ...]` with each element either zero or multiplied by `1 / (1 - rate)`. Which, follows from the key and the number
/// of the element in the whole batch, where `first_row`, `u32[]`, is the number of the first row: it depends neither on a mesh
/// nor on micro-batches. The gradient recomputes it.
///
/// # Errors
/// If a template is invalid.
pub fn dropout<'b>(
    templates: &Instantiator<'_>,
    rate: DropoutRate,
    key: DropoutKey<'b>,
    first_row: Value<'b>,
    x: Value<'b>,
) -> Result<Value<'b>, TemplateError> {
    let b = x.builder();
    b.named_scope("dropout", || {
        let [words, _] = random_words(templates, key, counter(first_row, &x.dims()))?;
        let (limit, factor) = (rate.limit(), 1.0 / (1.0 - rate.0));
        let args = template_args! { t: x.dtype(), dims: x.dims(), limit, factor };
        templates.call(b, "dropout", args, &[x, words])
    })
}

/// The number of the row, and of the element in its row, each `u32[dims]`.
fn counter<'b>(first_row: Value<'b>, dims: &[usize]) -> [Value<'b>; 2] {
    let b = first_row.builder();
    let shape = ArrayShape::new(DType::U32, dims);
    let row = b.iota(shape.clone(), 0) + first_row.broadcast(dims, &[]);
    let mut element = b.full(shape.clone(), 0.0);
    let mut stride: usize = 1;
    for dim in (1..dims.len()).rev() {
        element = element + b.iota(shape.clone(), dim) * stride as f64;
        stride = stride.saturating_mul(dims[dim]);
    }
    if u32::try_from(stride).is_err() {
        element = element.reject(format!("expected at most {} elements in a row, found {stride}", u32::MAX));
    }
    [row, element]
}

fn random_words<'b>(
    templates: &Instantiator<'_>,
    DropoutKey { k0, k1 }: DropoutKey<'b>,
    [x, y]: [Value<'b>; 2],
) -> Result<[Value<'b>; 2], TemplateError> {
    let both =
        templates.call(x.builder(), "threefry2x32", template_args! { dims: x.dims() }, &[k0, k1, x, y])?;
    Ok([both.get(0), both.get(1)])
}
