//! From the last layer's output to the loss, and back.
//!
//! The logits of a few positions of every sequence are there at one time. Their loss and the cotangent of the last layer's
//! output are computed together, so that nothing of them is kept.

use std::num::NonZeroUsize;

use super::{
    Role, StepError,
    build::{Arguments, StepBuilder},
};
use crate::{
    autodiff::{self, SavePolicy},
    base::{ArrayShape, DType},
    hlo::{Builder, CompId, Iteration, ModuleBuilder, Value},
    model::{Param, llama, nn},
};

/// Bytes that the logits of a chunk take on a device at most, in float32, where no chunk is asked for.
const LOGITS_BYTES: usize = 128 << 20;

/// Chunks of the positions of every sequence; the last is filled up.
#[derive(Clone, Copy)]
struct Chunks {
    count: usize,
    size: usize,
}

impl StepBuilder<'_> {
    /// The sum of the loss over the positions that count, `f32[]`.
    pub fn head_loss<'b>(
        &self,
        b: &'b Builder<'b>,
        arguments: &Arguments<'b>,
        x: Value<'b>,
        target: Value<'b>,
    ) -> Result<Value<'b>, StepError> {
        let chunks = self.chunks();
        let forward = self.head(b.module(), chunks.size)?;
        let carried = [b.scalar(DType::F32, 0.0)];
        let fixed = self.head_arguments(arguments, chunks, x, target);
        let found = self.for_each_chunk(b, chunks, &carried, &fixed, |turn, arguments| {
            vec![turn.carried[0] + turn.b.call(forward, arguments)]
        })?;
        Ok(found[0])
    }

    /// The same, and the cotangent of `x` where that of the sum is `cotangent`.
    pub fn head_loss_and_cotangent<'b>(
        &self,
        b: &'b Builder<'b>,
        arguments: &Arguments<'b>,
        x: Value<'b>,
        target: Value<'b>,
        cotangent: Value<'b>,
    ) -> Result<(Value<'b>, Value<'b>), StepError> {
        let chunks = self.chunks();
        let forward = self.head(b.module(), chunks.size)?;
        let backward = autodiff::backward(b.module(), forward, &[0], SavePolicy::Nothing)?.computation;
        let mut fixed = self.head_arguments(arguments, chunks, x, target);
        let carried =
            [b.scalar(DType::F32, 0.0), b.full(fixed[0].array(), 0.0).with_logical_sharding(nn::residual())];
        fixed.push(cotangent);
        let found = self.for_each_chunk(b, chunks, &carried, &fixed, |turn, arguments| {
            let loss = turn.carried[0] + turn.b.call(forward, &arguments[..4]);
            let dx = turn.b.call(backward, arguments).get(0).with_logical_sharding(nn::residual());
            vec![loss, chunks.put(turn.carried[1], turn.number, dx).with_logical_sharding(nn::residual())]
        })?;
        Ok((found[0], found[1].truncate_to(&x.dims())))
    }

    /// The name of the parameter that gives logits, as rules of a mesh speak of it.
    pub fn head_param(&self) -> String {
        self.catalog.tensor(self.head_role()).name
    }

    /// The role of the matrix that gives logits.
    pub fn head_role(&self) -> Role {
        let tied = self.scope.config.tie_word_embeddings;
        Role::Base(if tied { Param::Embed } else { Param::Head })
    }

    /// The computation from `x`, the final norm, the head and the targets of `length` positions to the sum of their loss.
    fn head(&self, module: &ModuleBuilder, length: usize) -> Result<CompId, StepError> {
        let scope = nn::Scope { seq: length, ..self.scope };
        let &nn::Scope { config, t, batch, .. } = &scope;
        module.try_define("head", |b| {
            let x = b.parameter("x", ArrayShape::new(t, [batch, length, config.hidden_size]));
            let norm = b.parameter("norm", ArrayShape::new(t, [config.hidden_size]));
            let head = b.parameter("head", ArrayShape::new(t, [config.vocab_size, config.hidden_size]));
            let target = b.parameter("target", ArrayShape::new(DType::S32, [batch, length]));
            let logits = llama::logits(&scope, x, norm, head, &self.head_param())?;
            Ok::<_, StepError>(nn::loss(&scope, logits, target)?)
        })
    }

    /// `x` and the targets filled up to whole chunks, the final norm and the head, in the order of [`StepBuilder::head`].
    fn head_arguments<'b>(
        &self,
        arguments: &Arguments<'b>,
        chunks: Chunks,
        x: Value<'b>,
        target: Value<'b>,
    ) -> Vec<Value<'b>> {
        // What a loop would gather at every turn is gathered once; what lies where it is computed with stays there.
        let head =
            arguments[&self.head_role()].with_logical_sharding(llama::head_sharding(&self.head_param()));
        let norm = arguments[&Role::Base(Param::FinalNorm)];
        let &nn::Scope { config, batch, .. } = &self.scope;
        let x = x
            .pad_to(&[batch, chunks.filled(), config.hidden_size], 0.0)
            .with_logical_sharding(nn::residual());
        vec![x, norm, head, target.pad_to(&[batch, chunks.filled()], f64::from(nn::IGNORED))]
    }

    /// Runs `body` on the arguments of [`StepBuilder::head`] for every chunk, with what stands behind them in `fixed`.
    fn for_each_chunk<'b>(
        &self,
        b: &'b Builder<'b>,
        chunks: Chunks,
        carried: &[Value<'b>],
        fixed: &[Value<'b>],
        body: impl for<'t> FnOnce(&Iteration<'t>, &[Value<'t>]) -> Vec<Value<'t>>,
    ) -> Result<Vec<Value<'b>>, StepError> {
        b.fori_loop("loss", chunks.count, carried, fixed, |turn| {
            let mut arguments = turn.fixed.clone();
            arguments[0] = chunks.take(arguments[0], turn.number).with_logical_sharding(nn::residual());
            arguments[3] = chunks.take(arguments[3], turn.number).with_logical_sharding(nn::per_token(&[]));
            Ok(body(&turn, &arguments))
        })
    }

    fn chunks(&self) -> Chunks {
        let seq = self.scope.seq;
        let size = self.spec.options.loss_chunk.map_or_else(|| self.moderate_chunk(), NonZeroUsize::get);
        let count = seq.div_ceil(size.clamp(1, seq));
        Chunks { count, size: seq.div_ceil(count) }
    }

    /// As many positions as have logits of [`LOGITS_BYTES`] on a device.
    fn moderate_chunk(&self) -> usize {
        let nn::Scope { batch, config, .. } = self.scope;
        let of_position = ArrayShape::new(DType::F32, [batch, 1, config.vocab_size]);
        let logical = llama::logits_sharding(&self.head_param());
        let parts = self
            .spec
            .mesh
            .map_or(1, |plan| plan.assign_logical(&logical, &of_position, "logits").num_shards());
        (LOGITS_BYTES * parts / of_position.bytes().max(1)).max(1)
    }
}

impl Chunks {
    /// The positions of all chunks.
    fn filled(self) -> usize {
        self.count * self.size
    }

    fn take<'t>(self, whole: Value<'t>, chunk: Value<'t>) -> Value<'t> {
        whole.dynamic_slice_in_dim(1, self.first(chunk), self.size)
    }

    fn put<'t>(self, whole: Value<'t>, chunk: Value<'t>, part: Value<'t>) -> Value<'t> {
        whole.dynamic_update_slice_in_dim(1, self.first(chunk), part)
    }

    /// The first position of a chunk.
    fn first<'t>(self, chunk: Value<'t>) -> Value<'t> {
        chunk * chunk.builder().scalar(DType::S32, self.size as f64)
    }
}
