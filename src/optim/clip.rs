use crate::hlo::Value;

/// The L2 norm, `f32[]`, of all gradients together.
///
/// # Panics
/// If there are none.
pub(crate) fn global_norm<'b>(gradients: &[Value<'b>]) -> Value<'b> {
    let squares = |gradient: &Value<'b>| {
        let all: Vec<usize> = (0..gradient.dims().len()).collect();
        (*gradient * *gradient).sum(&all)
    };
    let total = gradients.iter().map(squares).reduce(|x, y| x + y);
    total.expect("a step trains something").sqrt()
}

/// The factor that clips gradients of this norm to `max_norm`: `min(1, max_norm / (norm + 1e-6))`, as in
/// `torch.nn.utils.clip_grad_norm_`.
pub(crate) fn clip_factor(norm: Value<'_>, max_norm: f64) -> Value<'_> {
    let b = norm.builder();
    let dtype = norm.dtype();
    b.scalar(dtype, 1.0).min(b.scalar(dtype, max_norm) / (norm + 1e-6))
}
