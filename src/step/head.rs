//! The head: the loss from the last layer's output, its cotangent, and the gradients of the head's parameters if they are
//! trained.
//!
//! The logits exist for one chunk of positions at a time. Their loss and the cotangents are computed together, so that no
//! residual is saved.

use std::num::NonZeroUsize;

use indexmap::IndexMap;

use super::{
    Role, StepError,
    builder::{StepArgs, StepBuilder},
    scopes::{BACKWARD_HEAD, FORWARD_HEAD},
};
use crate::{
    autodiff::{self, SavePolicy},
    base::{ArrayShape, DType},
    hlo::{Builder, CompId, Iteration, ModuleBuilder, Value, ValueTree, value_tree},
    mesh::WithLogicalSharding,
    model::{
        Param, TrainableId, llama,
        nn::{self, ModelScope},
    },
};

/// Maximum bytes of a chunk's float32 logits on a device, if no chunk size is set.
const LOGITS_BYTES: usize = 128 << 20;

/// Chunks of the positions of every row; the last is padded.
#[derive(Clone, Copy)]
struct Chunks {
    count: usize,
    size: usize,
}

/// The parameters of the head's forward computation.
#[derive(Clone, Copy)]
struct HeadInputs<'b> {
    /// `[batch, positions, embed]`.
    x: Value<'b>,
    /// The weight of the final norm.
    norm: Value<'b>,
    /// `[vocab, embed]`.
    head: Value<'b>,
    /// `s32[batch, positions]`.
    target: Value<'b>,
}

/// The sum of the loss, and the cotangents of what the head reads.
pub(super) struct LossAndCotangents<'b> {
    pub loss: Value<'b>,
    /// Of `x`.
    pub dx: Value<'b>,
    /// Of the parameters that are trained, float32.
    pub gradients: IndexMap<TrainableId, Value<'b>>,
}

value_tree! {
    HeadInputs { x, norm, head, target }
    LossAndCotangents { loss, dx, gradients }
}

impl StepBuilder<'_> {
    /// The sum of the loss over the labelled tokens, `f32[]`.
    pub(super) fn head_loss<'b>(
        &self,
        b: &'b Builder<'b>,
        args: &StepArgs<'b>,
        x: Value<'b>,
        target: Value<'b>,
    ) -> Result<Value<'b>, StepError> {
        let chunks = self.chunks();
        let forward = self.head(b.module(), chunks.size)?;
        b.root_scope(FORWARD_HEAD, || {
            let init = b.scalar(DType::F32, 0.0);
            let inputs = self.head_inputs(args, chunks, x, target);
            b.fori_loop("loss", chunks.count, init, inputs, |iteration| {
                let Iteration { b, index, carry: loss, captures } = iteration;
                Ok(loss + b.call(forward, &chunks.inputs_at(index, captures).flatten()))
            })
        })
    }

    /// The sum of the loss over the labelled tokens, and the cotangents if that of the sum is `cotangent`.
    pub(super) fn head_loss_and_cotangents<'b>(
        &self,
        b: &'b Builder<'b>,
        args: &StepArgs<'b>,
        x: Value<'b>,
        target: Value<'b>,
        cotangent: Value<'b>,
    ) -> Result<LossAndCotangents<'b>, StepError> {
        let chunks = self.chunks();
        let forward = self.head(b.module(), chunks.size)?;
        let (ids, mut wrt): (Vec<TrainableId>, Vec<usize>) = self.trainable_inputs().unzip();
        wrt.insert(0, HeadInputs::X);
        let backward =
            autodiff::backward(b.module(), self.scope.templates.vjps(), forward, &wrt, SavePolicy::Nothing)?
                .computation;
        let sums = b.root_scope(FORWARD_HEAD, || {
            let inputs = self.head_inputs(args, chunks, x, target);
            let loss = b.scalar(DType::F32, 0.0);
            let dx = b.root_scope(BACKWARD_HEAD, || b.full(inputs.x.array(), 0.0));
            let gradients = self.zero_gradients(b, ids.iter().copied());
            let init = LossAndCotangents { loss, dx: dx.with_logical_sharding(nn::residual()), gradients };
            b.fori_loop("loss", chunks.count, init, (inputs, cotangent), |iteration| {
                let Iteration { b, index, carry, captures: (inputs, cotangent) } = iteration;
                let inputs = chunks.inputs_at(index, inputs).flatten();
                let loss = carry.loss + b.call(forward, &inputs);
                let (dx, gradients) = b.root_scope(BACKWARD_HEAD, || {
                    let found = b.call(backward, &[&inputs[..], &[cotangent]].concat());
                    let dx = found.get(0).with_logical_sharding(nn::residual());
                    let gradients = carry.gradients.into_iter().enumerate().map(|(i, (id, sum))| {
                        let logical = self.catalog.logical_sharding(Role::Gradient(id));
                        let gradient = found.get(i + 1).convert(DType::F32).with_logical_sharding(logical);
                        (id, sum + gradient)
                    });
                    (chunks.write(carry.dx, index, dx), gradients.collect())
                });
                let dx = dx.with_logical_sharding(nn::residual());
                Ok::<_, StepError>(LossAndCotangents { loss, dx, gradients })
            })
        })?;
        let dx = b.root_scope(BACKWARD_HEAD, || sums.dx.truncate_to(&x.dims()));
        Ok(LossAndCotangents { dx, ..sums })
    }

    /// The trained parameters among the head's inputs, with the numbers of these.
    fn trainable_inputs(&self) -> impl Iterator<Item = (TrainableId, usize)> {
        let set = self.catalog.workload.trainable;
        let inputs = [(Param::FinalNorm, HeadInputs::NORM), (self.head_matrix(), HeadInputs::HEAD)];
        let trained = inputs.into_iter().filter(move |&(param, _)| set.contains(param));
        trained.map(|(param, number)| (TrainableId::Param(param), number))
    }

    /// The computation from [`HeadInputs`] of `length` positions to the sum of their loss.
    fn head(&self, module: &ModuleBuilder, length: usize) -> Result<CompId, StepError> {
        let scope = ModelScope { seq: length, ..self.scope };
        let &ModelScope { config, t, batch, .. } = &scope;
        module.try_define("head", |b| {
            let x = b.parameter("x", ArrayShape::new(t, [batch, length, config.hidden_size]));
            let norm = b.parameter("norm", ArrayShape::new(t, [config.hidden_size]));
            let head = b.parameter("head", ArrayShape::new(t, [config.vocab_size, config.hidden_size]));
            let target = b.parameter("target", ArrayShape::new(DType::S32, [batch, length]));
            let logits = llama::logits(&scope, x, norm, head, &self.head_param())?;
            Ok::<_, StepError>(nn::loss(&scope, logits, target)?)
        })
    }

    /// The inputs of all chunks: `x` and the targets padded to a multiple of the chunk.
    fn head_inputs<'b>(
        &self,
        args: &StepArgs<'b>,
        chunks: Chunks,
        x: Value<'b>,
        target: Value<'b>,
    ) -> HeadInputs<'b> {
        // Gathered once before the loop, not in every iteration; a matrix that is computed with as stored is not gathered.
        let head = self
            .param(args, self.head_matrix())
            .with_logical_sharding(llama::head_sharding(&self.head_param()));
        let norm = self.param(args, Param::FinalNorm);
        let &ModelScope { config, batch, .. } = &self.scope;
        let x = x.pad_to(&[batch, chunks.positions(), config.hidden_size], 0.0);
        let x = x.with_logical_sharding(nn::residual());
        let target = target.pad_to(&[batch, chunks.positions()], f64::from(nn::IGNORED));
        HeadInputs { x, norm, head, target }
    }

    fn chunks(&self) -> Chunks {
        let seq = self.scope.seq;
        let size = self.spec.options.loss_chunk.map_or_else(|| self.default_chunk(), NonZeroUsize::get);
        let count = seq.div_ceil(size.clamp(1, seq));
        Chunks { count, size: seq.div_ceil(count) }
    }

    /// The number of positions whose logits take [`LOGITS_BYTES`] on a device.
    fn default_chunk(&self) -> usize {
        let ModelScope { batch, config, .. } = self.scope;
        let one_position = ArrayShape::new(DType::F32, [batch, 1, config.vocab_size]);
        let logical = llama::logits_sharding(&self.head_param());
        let sharding = self.spec.mesh.map(|plan| plan.assign_logical(&logical, &one_position, "logits"));
        let num_shards = sharding.map_or(1, |sharding| sharding.num_shards());
        (LOGITS_BYTES * num_shards / one_position.bytes().max(1)).max(1)
    }
}

impl HeadInputs<'_> {
    /// The number of `x` among the parameters.
    const X: usize = 0;
    /// The number of `norm`.
    const NORM: usize = 1;
    /// The number of `head`.
    const HEAD: usize = 2;
}

impl Chunks {
    /// The number of positions of all chunks.
    fn positions(self) -> usize {
        self.count * self.size
    }

    /// The inputs of one chunk.
    fn inputs_at<'t>(self, chunk: Value<'t>, all: HeadInputs<'t>) -> HeadInputs<'t> {
        let x = self.read(all.x, chunk).with_logical_sharding(nn::residual());
        let target = self.read(all.target, chunk).with_logical_sharding(nn::per_token(&[]));
        HeadInputs { x, target, ..all }
    }

    fn read<'t>(self, all: Value<'t>, chunk: Value<'t>) -> Value<'t> {
        all.dynamic_slice_in_dim(1, self.first(chunk), self.size)
    }

    fn write<'t>(self, all: Value<'t>, chunk: Value<'t>, update: Value<'t>) -> Value<'t> {
        all.dynamic_update_slice_in_dim(1, self.first(chunk), update)
    }

    /// The first position of a chunk.
    fn first<'t>(self, chunk: Value<'t>) -> Value<'t> {
        chunk * chunk.builder().scalar(DType::S32, self.size as f64)
    }
}
