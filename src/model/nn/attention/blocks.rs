//! Attention that computes scores for one block of queries and keys at a time.
//!
//! One loop runs over all pairs of blocks in which a query attends to a key, ordered by query block. The online softmax of a
//! query block is carried from iteration to iteration and reset at its first pair; results are written in every iteration, and
//! those of its last pair remain. The trip count is known to the compiler, which that of a nested loop would not be.

use super::{ModelScope, mask, scale};
use crate::{
    base::{ArrayShape, DType, Shape},
    hlo::{Builder, CompId, ComparisonDirection, Iteration, Value, value_tree},
    mesh::{Dim, LogicalSharding, WithLogicalSharding},
    templates::{TemplateError, template_args},
};

/// Adds the computation of `(o, log_sum_exp)` from `q`, `k`, `v` and, if rows are packed, the segments; and its vjp.
pub(super) fn instantiate(
    scope: &ModelScope<'_>,
    block: usize,
    packed: bool,
) -> Result<CompId, TemplateError> {
    let blocks = Blocks::new(scope, block, packed);
    let module = scope.templates.module();
    let forward = module.try_define("attention", |b| blocks.forward(b))?;
    let gradient = module.try_define("attention.grad", |b| blocks.backward(b))?;
    scope.templates.vjps().set_custom(forward, gradient);
    Ok(forward)
}

struct Blocks<'a> {
    scope: &'a ModelScope<'a>,
    /// Number of queries, and of keys, of a block.
    block: usize,
    /// Number of blocks of a row; the last is padded.
    count: usize,
    /// Number of key blocks before its own that a query block attends to, at most; `None` for all of them.
    reach: Option<usize>,
    kv_heads: usize,
    group: usize,
    head_dim: usize,
    packed: bool,
}

/// Indices of a pair of blocks, as the loops carry them.
#[derive(Clone, Copy)]
struct PairIndex<'b> {
    /// `s32[]`, the query block.
    query: Value<'b>,
    /// `s32[]`, the key block.
    key: Value<'b>,
}

/// A pair of blocks.
struct Pair<'b> {
    /// `s32[]`, the first position of the query block.
    query: Value<'b>,
    /// `s32[]`, the first position of the key block.
    key: Value<'b>,
    /// `pred[]`, whether it is the first pair of its query block.
    is_first: Value<'b>,
    next: PairIndex<'b>,
}

/// Operands of attention: `q [batch, kv_heads, seq, group, head_dim]`, `k` and `v [batch, kv_heads, seq, head_dim]`, the
/// row padded to a multiple of the block.
#[derive(Clone, Copy)]
struct Operands<'b> {
    q: Value<'b>,
    k: Value<'b>,
    v: Value<'b>,
}

/// The online softmax of a query block over the key blocks before this one.
struct Softmax<'b> {
    /// The largest score of each query.
    max: Value<'b>,
    /// The sum of exponentials.
    sum: Value<'b>,
    /// The sum of values, weighted with the exponentials.
    weighted: Value<'b>,
}

struct AttentionForwardCarry<'b> {
    pair: PairIndex<'b>,
    softmax: Softmax<'b>,
    o: Value<'b>,
    log_sum_exp: Value<'b>,
}

struct AttentionBackwardCarry<'b> {
    pair: PairIndex<'b>,
    /// The gradient of the query block, float32.
    dq_block: Value<'b>,
    dq: Value<'b>,
    dk: Value<'b>,
    dv: Value<'b>,
}

struct AttentionBackwardCaptures<'b> {
    operands: Operands<'b>,
    /// The cotangent of `o`.
    d_o: Value<'b>,
    log_sum_exp: Value<'b>,
    /// The sum over features of `o * d_o`.
    delta: Value<'b>,
    segments: Option<Value<'b>>,
}

value_tree! {
    PairIndex { query, key }
    Operands { q, k, v }
    Softmax { max, sum, weighted }
    AttentionForwardCarry { pair, softmax, o, log_sum_exp }
    AttentionBackwardCarry { pair, dq_block, dq, dk, dv }
    AttentionBackwardCaptures { operands, d_o, log_sum_exp, delta, segments }
}

impl<'a> Blocks<'a> {
    fn new(scope: &'a ModelScope<'a>, block: usize, packed: bool) -> Self {
        let block = block.clamp(1, scope.seq);
        let (kv_heads, head_dim) = (scope.config.num_key_value_heads, scope.config.head_dim);
        let group = scope.config.num_attention_heads / kv_heads;
        let reach = scope.window().map(|window| window.saturating_sub(1).div_ceil(block));
        Self { scope, block, count: scope.seq.div_ceil(block), reach, kv_heads, group, head_dim, packed }
    }

    /// Number of pairs of blocks in which a query attends to a key.
    fn pairs(&self) -> usize {
        match self.reach {
            None => self.count * (self.count + 1) / 2,
            Some(reach) => (0..self.count).map(|query| query.min(reach) + 1).sum(),
        }
    }

    /// `s32[]`, the first key block that the query block `query` attends to; `zero` is that of a full row.
    fn first_key<'t>(&self, query: Value<'t>, zero: Value<'t>) -> Value<'t> {
        match self.reach {
            None => zero,
            Some(reach) => (query - reach as f64).max(zero),
        }
    }

    fn forward<'b>(&self, b: &'b Builder<'b>) -> Result<Value<'b>, TemplateError> {
        let captures = self.parameters(b);
        let (f32, t) = (DType::F32, self.scope.t);
        let zero = b.scalar(DType::S32, 0.0);
        let softmax = Softmax {
            max: b.full(self.per_query(f32, self.block), -1e30),
            sum: b.full(self.per_query(f32, self.block), 0.0),
            weighted: b.full(self.features(f32, self.block), 0.0),
        };
        let init = AttentionForwardCarry {
            pair: PairIndex { query: zero, key: zero },
            softmax,
            o: b.full(self.features(t, self.padded()), 0.0),
            log_sum_exp: b.full(self.per_query(f32, self.padded()), 0.0),
        };
        let AttentionForwardCarry { o, log_sum_exp, .. } =
            b.fori_loop("attention.pairs", self.pairs(), init, captures, |it| self.forward_pair(it))?;
        Ok(b.tuple(&[self.leave_queries(o), self.leave_queries(log_sum_exp)]))
    }

    fn forward_pair<'t>(
        &self,
        iteration: Iteration<'t, AttentionForwardCarry<'t>, (Operands<'t>, Option<Value<'t>>)>,
    ) -> Result<AttentionForwardCarry<'t>, TemplateError> {
        let Iteration { b, carry, captures: (Operands { q, k, v }, segments), .. } = iteration;
        let pair = self.pair(b, carry.pair);
        let reset = |value: Value<'t>, start: f64| {
            let is_first = pair.is_first.broadcast(&value.dims(), &[]);
            is_first.select(b.full(value.array(), start), value)
        };
        let arguments = [
            self.take(q, pair.query),
            self.take(k, pair.key),
            self.take(v, pair.key),
            self.mask(&pair, segments)?,
            reset(carry.softmax.max, -1e30),
            reset(carry.softmax.sum, 0.0),
            reset(carry.softmax.weighted, 0.0),
        ];
        let next = self.call(b, "attention_block", &arguments)?;
        let softmax = Softmax { max: next.get(0), sum: next.get(1), weighted: next.get(2) };
        let Softmax { max, sum, weighted } = softmax;
        let o = (weighted / sum.broadcast(&weighted.dims(), &[0, 1, 2, 3])).convert(self.scope.t);
        let o = self.put(carry.o, pair.query, o);
        let log_sum_exp = self.put(carry.log_sum_exp, pair.query, max + sum.log());
        Ok(AttentionForwardCarry { pair: pair.next, softmax, o, log_sum_exp })
    }

    /// Takes the arguments of the forward computation, its result and the cotangent of that.
    fn backward<'b>(&self, b: &'b Builder<'b>) -> Result<Value<'b>, TemplateError> {
        let (operands, segments) = self.parameters(b);
        let heads = self.scope.config.num_attention_heads;
        let &ModelScope { t, batch, seq, .. } = self.scope;
        let both = [
            ArrayShape::new(t, [batch, seq, heads, self.head_dim]).into(),
            ArrayShape::new(DType::F32, [batch, seq, heads]).into(),
        ];
        let result = b.parameter("result", Shape::Tuple(both.to_vec()));
        let cotangent = b.parameter("cotangent", Shape::Tuple(both.to_vec()));
        let (o, d_o) = (self.enter_queries(result.get(0)), self.enter_queries(cotangent.get(0)));
        let log_sum_exp = self.enter_queries(result.get(1));
        let delta = (o.convert(DType::F32) * d_o.convert(DType::F32)).sum(&[4]);

        let zero = b.scalar(DType::S32, 0.0);
        let dq_block = b.full(self.features(DType::F32, self.block), 0.0);
        let dq = b.full(self.features(t, self.padded()), 0.0);
        let per_key = [batch, self.kv_heads, self.padded(), self.head_dim];
        let dk = b.full(ArrayShape::new(DType::F32, per_key), 0.0).with_logical_sharding(keys());
        let init =
            AttentionBackwardCarry { pair: PairIndex { query: zero, key: zero }, dq_block, dq, dk, dv: dk };
        let captures = AttentionBackwardCaptures { operands, d_o, log_sum_exp, delta, segments };
        let AttentionBackwardCarry { dq, dk, dv, .. } =
            b.fori_loop("attention.grad.pairs", self.pairs(), init, captures, |it| self.backward_pair(it))?;
        let [dk, dv] = [dk, dv].map(|gradient| self.leave_keys(gradient.convert(t)));
        Ok(b.tuple(&[self.leave_queries(dq), dk, dv]))
    }

    fn backward_pair<'t>(
        &self,
        iteration: Iteration<'t, AttentionBackwardCarry<'t>, AttentionBackwardCaptures<'t>>,
    ) -> Result<AttentionBackwardCarry<'t>, TemplateError> {
        let Iteration { b, carry, captures, .. } = iteration;
        let AttentionBackwardCaptures { operands: Operands { q, k, v }, d_o, log_sum_exp, delta, segments } =
            captures;
        let pair = self.pair(b, carry.pair);
        let arguments = [
            self.take(q, pair.query),
            self.take(k, pair.key),
            self.take(v, pair.key),
            self.mask(&pair, segments)?,
            self.take(d_o, pair.query),
            self.take(log_sum_exp, pair.query),
            self.take(delta, pair.query),
        ];
        let found = self.call(b, "attention_block_back", &arguments)?;
        let is_first = pair.is_first.broadcast(&carry.dq_block.dims(), &[]);
        let before = is_first.select(b.full(carry.dq_block.array(), 0.0), carry.dq_block);
        let dq_block = before + found.get(0);
        let sum =
            |total: Value<'t>, part: Value<'t>| self.put(total, pair.key, self.take(total, pair.key) + part);
        let (dk, dv) = (sum(carry.dk, found.get(1)), sum(carry.dv, found.get(2)));
        let dq = self.put(carry.dq, pair.query, dq_block.convert(self.scope.t));
        Ok(AttentionBackwardCarry { pair: pair.next, dq_block, dq, dk, dv })
    }

    /// The parameters of both computations in the layout of the loops, and the segments `s32[batch, seq]` of packed rows.
    fn parameters<'b>(&self, b: &'b Builder<'b>) -> (Operands<'b>, Option<Value<'b>>) {
        let &ModelScope { t, batch, seq, config, .. } = self.scope;
        let parameter = |name: &str, heads: usize| {
            b.parameter(name, ArrayShape::new(t, [batch, seq, heads, self.head_dim]))
        };
        let q = parameter("q", config.num_attention_heads);
        let (k, v) = (parameter("k", self.kv_heads), parameter("v", self.kv_heads));
        let segments = self.packed.then(|| {
            let segments = b.parameter("segments", ArrayShape::new(DType::S32, [batch, seq]));
            self.pad(segments, 1)
        });
        (Operands { q: self.enter_queries(q), k: self.enter_keys(k), v: self.enter_keys(v) }, segments)
    }

    /// From `[batch, seq, heads, ...]` to `[batch, kv_heads, seq, group, ...]`, with the row padded.
    fn enter_queries<'b>(&self, value: Value<'b>) -> Value<'b> {
        let mut dims = value.dims();
        dims.splice(2..3, [self.kv_heads, self.group]);
        self.pad(swap(value.reshape(&dims)), 2)
    }

    fn leave_queries<'b>(&self, value: Value<'b>) -> Value<'b> {
        let value = swap(self.truncate(value));
        let mut dims = value.dims();
        dims.splice(2..4, [self.kv_heads * self.group]);
        value.reshape(&dims)
    }

    /// From `[batch, seq, kv_heads, head_dim]` to `[batch, kv_heads, seq, head_dim]`, with the row padded.
    fn enter_keys<'b>(&self, value: Value<'b>) -> Value<'b> {
        self.pad(swap(value), 2).with_logical_sharding(keys())
    }

    fn leave_keys<'b>(&self, value: Value<'b>) -> Value<'b> {
        swap(self.truncate(value))
    }

    /// `value` with dimension `dim`, the positions of a row, padded with zeros to a multiple of the block. Padding is masked
    /// by causality: it comes after every token.
    fn pad<'b>(&self, value: Value<'b>, dim: usize) -> Value<'b> {
        let mut dims = value.dims();
        dims[dim] = self.padded();
        value.pad_to(&dims, 0.0)
    }

    fn truncate<'b>(&self, value: Value<'b>) -> Value<'b> {
        let mut dims = value.dims();
        dims[2] = self.scope.seq;
        value.truncate_to(&dims)
    }

    fn pair<'t>(&self, b: &'t Builder<'t>, PairIndex { query, key }: PairIndex<'t>) -> Pair<'t> {
        let (zero, size) = (b.scalar(DType::S32, 0.0), b.scalar(DType::S32, self.block as f64));
        let is_last = key.compare(ComparisonDirection::Eq, query);
        let next_query = is_last.select(query + 1.0, query);
        let next =
            PairIndex { query: next_query, key: is_last.select(self.first_key(next_query, zero), key + 1.0) };
        let is_first = key.compare(ComparisonDirection::Eq, self.first_key(query, zero));
        Pair { query: query * size, key: key * size, is_first, next }
    }

    /// The block of `[batch, kv_heads, seq, ...]` that begins at `first`.
    fn take<'t>(&self, all: Value<'t>, first: Value<'t>) -> Value<'t> {
        all.dynamic_slice_in_dim(2, first, self.block)
    }

    fn put<'t>(&self, all: Value<'t>, first: Value<'t>, part: Value<'t>) -> Value<'t> {
        all.dynamic_update_slice_in_dim(2, first, part)
    }

    fn mask<'t>(&self, pair: &Pair<'t>, segments: Option<Value<'t>>) -> Result<Value<'t>, TemplateError> {
        let of_block =
            |segments: Value<'t>, first: Value<'t>| segments.dynamic_slice_in_dim(1, first, self.block);
        let segments =
            segments.map(|segments| [of_block(segments, pair.query), of_block(segments, pair.key)]);
        mask(self.scope, self.block, [pair.query, pair.key], segments)
    }

    /// Positions of a row, padding of the last block included.
    fn padded(&self) -> usize {
        self.count * self.block
    }

    /// Shape of one number for each query.
    fn per_query(&self, dtype: DType, length: usize) -> ArrayShape {
        ArrayShape::new(dtype, [self.scope.batch, self.kv_heads, length, self.group])
    }

    /// Shape of the features of each query.
    fn features(&self, dtype: DType, length: usize) -> ArrayShape {
        ArrayShape::new(dtype, [self.scope.batch, self.kv_heads, length, self.group, self.head_dim])
    }

    /// Calls the template `name` with the sizes of a block.
    fn call<'t>(
        &self,
        b: &'t Builder<'t>,
        name: &str,
        arguments: &[Value<'t>],
    ) -> Result<Value<'t>, TemplateError> {
        let &Self { scope, block, kv_heads, group, head_dim, .. } = self;
        let &ModelScope { templates, t, batch, .. } = scope;
        let args = template_args! { t, batch, block, kv_heads, group, head_dim, scale: scale(head_dim) };
        templates.call(b, name, args, arguments)
    }
}

/// Logical sharding of keys and values, `[batch, kv_heads, seq, head_dim]`.
fn keys() -> LogicalSharding {
    LogicalSharding::compute([Dim::Batch, Dim::KvHeads, Dim::Seq, Dim::HeadDim])
}

/// `value` with dimensions 1 and 2 transposed.
fn swap<'b>(value: Value<'b>) -> Value<'b> {
    let order: Vec<usize> = [0, 2, 1].into_iter().chain(3..value.dims().len()).collect();
    value.transpose(&order)
}
