//! The two passes over the stack of layers, and the head between them.

use super::{
    Packing, Remat, Role, StepError, Workload,
    build::{Arguments, StepBuilder},
    layer::Layer,
    layer_slice::LayerSlice,
};
use crate::{
    base::{ArrayShape, DType, Dim, LogicalSharding, MemorySpace},
    hlo::{Builder, CompId, Iteration, Value},
    model::{
        AdapterId, Param,
        nn::{self, RopeTable, Scope},
        sizes,
    },
};

/// What both passes over the stack begin with.
struct Stack<'b> {
    /// `[batch, seq, embed]`, the embedded tokens.
    x: Value<'b>,
    /// What the loops carry unchanged: what all layers share, then what [`StepBuilder::stacks`] lists.
    fixed: Vec<Value<'b>>,
}

/// Layers that follow each other.
#[derive(Clone, Copy)]
struct Span<'b> {
    /// `s32[]`, the first of them.
    first: Value<'b>,
    /// How many.
    layers: usize,
}

/// How the passes go over the layers: groups of equally many, of which the forward pass leaves the first one's input, and
/// at last layers that leave everything that the backward pass takes over.
#[derive(Clone, Copy)]
struct RematSchedule {
    num_groups: usize,
    group_len: usize,
    tail_len: usize,
    /// Where the inputs of groups lie.
    inputs: MemorySpace,
    /// Where the input of each layer lies, of one group at a time and of those at last.
    residuals: MemorySpace,
}

impl StepBuilder<'_> {
    /// The mean loss and the gradient of every adapter factor.
    pub(super) fn loss_and_gradients<'b>(
        &self,
        b: &'b Builder<'b>,
        arguments: &Arguments<'b>,
        target: Value<'b>,
        num_label_tokens: Value<'b>,
    ) -> Result<(Value<'b>, Vec<(AdapterId, Value<'b>)>), StepError> {
        let stack = self.stack(b, arguments)?;
        let remat = self.remat();
        let schedule = self.schedule(remat);
        let mut layer = self.layer(b.module(), remat.keep())?;
        layer.group_input.memory = schedule.inputs;
        layer.residuals[0].memory = schedule.residuals;
        let last =
            Span { first: number(b, schedule.num_groups * schedule.group_len), layers: schedule.tail_len };

        let (x, inputs) = self.groups_forward(b, schedule, &layer, &stack)?;
        let (x, residuals) = self.forward_with_residuals(b, last, &layer, x, &stack.fixed)?;
        let cotangent = mean(b.scalar(DType::F32, 1.0), num_label_tokens);
        let (loss, dx) = self.head_loss_and_cotangent(b, arguments, x, target, cotangent)?;

        let gradients = self.empty_gradients(b);
        let carried: Vec<Value<'b>> =
            [dx.with_logical_sharding(nn::residual())].into_iter().chain(gradients).collect();
        let carried = self.backward(b, last, &layer, &carried, &stack.fixed, &residuals)?;
        let carried = self.groups_backward(b, schedule, &layer, carried, &stack.fixed, inputs)?;
        let gradients = self.catalog.ids().zip(carried.into_iter().skip(1)).collect();
        Ok((mean(loss, num_label_tokens), gradients))
    }

    /// Runs the stack forward and gives the last layer's output, `[batch, seq, embed]`.
    pub(super) fn forward<'b>(
        &self,
        b: &'b Builder<'b>,
        arguments: &Arguments<'b>,
    ) -> Result<Value<'b>, StepError> {
        let Stack { x, fixed } = self.stack(b, arguments)?;
        let layer = self.forward_layer(b.module())?;
        let all = Span { first: number(b, 0), layers: self.layers() };
        self.run_forward(b, all, layer, x, &fixed)
    }

    /// Runs all groups forward; gives the output of the last, and the input of each as a stack.
    fn groups_forward<'b>(
        &self,
        b: &'b Builder<'b>,
        schedule: RematSchedule,
        layer: &Layer,
        stack: &Stack<'b>,
    ) -> Result<(Value<'b>, Option<Value<'b>>), StepError> {
        if schedule.num_groups == 0 {
            return Ok((stack.x, None));
        }
        let carried = [stack.x, layer.group_input.empty_stack(b, schedule.num_groups)];
        let last = b.fori_loop("groups", schedule.num_groups, &carried, &stack.fixed, |turn| {
            let Iteration { b, number: group, carried, fixed } = turn;
            let inputs = layer.group_input.set(carried[1], group, carried[0]);
            let y = self.run_forward(b, schedule.group(group), layer.forward, carried[0], &fixed)?;
            Ok::<_, StepError>(vec![y, inputs])
        })?;
        Ok((last[0], Some(last[1])))
    }

    /// Runs all groups backward, each forward once more before: `carried` as in [`StepBuilder::backward`].
    fn groups_backward<'b>(
        &self,
        b: &'b Builder<'b>,
        schedule: RematSchedule,
        layer: &Layer,
        carried: Vec<Value<'b>>,
        fixed: &[Value<'b>],
        inputs: Option<Value<'b>>,
    ) -> Result<Vec<Value<'b>>, StepError> {
        let Some(inputs) = inputs else { return Ok(carried) };
        let fixed = [fixed, &[inputs]].concat();
        b.fori_loop("groups.backward", schedule.num_groups, &carried, &fixed, |turn| {
            let Iteration { b, number: turns, carried, fixed } = turn;
            let group = number(b, schedule.num_groups - 1) - turns;
            let Some((&inputs, fixed)) = fixed.split_last() else { return Ok(carried) };
            let x = layer.group_input.get(inputs, group);
            let (_, residuals) = self.forward_with_residuals(b, schedule.group(group), layer, x, fixed)?;
            self.backward(b, schedule.group(group), layer, &carried, fixed, &residuals)
        })
    }

    /// Runs layers forward and gives the output of the last.
    fn run_forward<'b>(
        &self,
        b: &'b Builder<'b>,
        span: Span<'b>,
        layer: CompId,
        x: Value<'b>,
        fixed: &[Value<'b>],
    ) -> Result<Value<'b>, StepError> {
        let fixed = [fixed, &[span.first]].concat();
        let last = b.fori_loop("forward", span.layers, &[x], &fixed, |turn| {
            let Iteration { b, number, carried, fixed } = turn;
            let at = Self::at(number, &fixed);
            Ok::<_, StepError>(vec![b.call(layer, &self.arguments_at(carried[0], &fixed, at))])
        })?;
        Ok(last[0])
    }

    /// Runs layers forward; besides the output of the last gives stacks of what each leaves for the backward pass.
    fn forward_with_residuals<'b>(
        &self,
        b: &'b Builder<'b>,
        span: Span<'b>,
        layer: &Layer,
        x: Value<'b>,
        fixed: &[Value<'b>],
    ) -> Result<(Value<'b>, Vec<Value<'b>>), StepError> {
        let empty = layer.residuals.iter().map(|entry| entry.empty_stack(b, span.layers));
        let carried: Vec<Value<'b>> = [x].into_iter().chain(empty).collect();
        let fixed = [fixed, &[span.first]].concat();
        let mut last = b.fori_loop("forward", span.layers, &carried, &fixed, |turn| {
            let Iteration { b, number, carried, fixed } = turn;
            let at = Self::at(number, &fixed);
            let (y, residuals) = layer.run(b, &self.arguments_at(carried[0], &fixed, at));
            let stacks = layer.residuals.iter().zip(&carried[1..]).zip(residuals);
            let stacks = stacks.map(|((entry, &stack), value)| entry.set(stack, number, value));
            Ok::<_, StepError>([y].into_iter().chain(stacks).collect())
        })?;
        let residuals = last.split_off(1);
        Ok((last[0], residuals))
    }

    /// Runs layers backward. `carried` are the cotangent of the output of the last, which becomes that of the input of the
    /// first, and the stacks of the gradients of all layers, which get the entries of these.
    fn backward<'b>(
        &self,
        b: &'b Builder<'b>,
        span: Span<'b>,
        layer: &Layer,
        carried: &[Value<'b>],
        fixed: &[Value<'b>],
        residuals: &[Value<'b>],
    ) -> Result<Vec<Value<'b>>, StepError> {
        let gradients: Vec<LayerSlice> = self.gradients().collect();
        let fixed = [residuals, fixed, &[span.first]].concat();
        b.fori_loop("backward", span.layers, carried, &fixed, |turn| {
            let Iteration { b, number: turns, carried, fixed } = turn;
            let (residuals, fixed) = fixed.split_at(layer.residuals.len());
            let index = number(b, span.layers - 1) - turns;
            let at = Self::at(index, fixed);
            let residuals = layer.residuals.iter().zip(residuals);
            let residuals: Vec<Value<'_>> =
                residuals.map(|(entry, &stack)| entry.get(stack, index)).collect();
            let arguments = self.arguments_at(residuals[0], fixed, at);
            let found = layer.vjp(b, &arguments, carried[0], &residuals[1..]);
            let stacks = gradients.iter().zip(&carried[1..]).zip(&found[1..]);
            let stacks = stacks.map(|((entry, &stack), &value)| entry.set(stack, at, value));
            Ok([found[0].with_logical_sharding(nn::residual())].into_iter().chain(stacks).collect())
        })
    }

    fn layers(&self) -> usize {
        self.scope.config.num_hidden_layers
    }

    pub(super) fn packed(&self) -> bool {
        self.spec.workload.packing == Packing::On
    }

    fn remat(&self) -> Remat {
        let Scope { batch, .. } = self.scope;
        let logical = LogicalSharding::compute([Dim::Batch]);
        let shape = ArrayShape::new(DType::S32, [batch]);
        let parts =
            self.spec.mesh.map_or(1, |plan| plan.assign_logical(&logical, &shape, "batch").num_shards());
        self.spec.options.remat_of(&Workload { batch, ..self.spec.workload }, parts)
    }

    fn schedule(&self, remat: Remat) -> RematSchedule {
        let layers = self.layers();
        let every = self.spec.options.remat_every.map_or(layers, |every| every.get().min(layers)).max(1);
        // What the last layers leave is used at once, so they need not run forward again. There are two of them at least: the
        // weights of one would be gathered before all micro-batches, and be kept until the last.
        let groups = layers.saturating_sub(2) / every;
        let (inputs, residuals) = match (remat, groups) {
            (Remat::Full | Remat::Dots | Remat::None, _) => (MemorySpace::Device, MemorySpace::Device),
            (Remat::Offload, 0) => (MemorySpace::Device, MemorySpace::Host),
            (Remat::Offload, _) => (MemorySpace::Host, MemorySpace::Device),
        };
        RematSchedule {
            num_groups: groups,
            group_len: every,
            tail_len: layers - groups * every,
            inputs,
            residuals,
        }
    }

    /// The gradient of each factor at one layer.
    fn gradients(&self) -> impl Iterator<Item = LayerSlice> {
        self.catalog.adapters.iter().map(|spec| {
            let shape = ArrayShape::new(DType::F32, sizes(&spec.dims[1..]));
            let logical = Some(self.catalog.logical(Role::Gradient(spec.id)).layer_slice());
            LayerSlice { shape, logical, memory: MemorySpace::Device }
        })
    }

    /// The gradient of each factor at all layers, before any is found.
    pub(super) fn empty_gradients<'b>(&self, b: &'b Builder<'b>) -> Vec<Value<'b>> {
        self.gradients().map(|entry| entry.empty_stack(b, self.layers())).collect()
    }

    fn stack<'b>(&self, b: &'b Builder<'b>, arguments: &Arguments<'b>) -> Result<Stack<'b>, StepError> {
        // Each device looks up all tokens in the part of the table that it holds; what then moves is the rows found,
        // not the table.
        let table = self.catalog.tensor(Role::Base(Param::Embed));
        let found = LogicalSharding::compute_as_stored(nn::residual().dims, table.name, Dim::Embed);
        let x = nn::embed(&self.scope, arguments[&Role::Base(Param::Embed)], arguments[&Role::InputIds])?;
        let x = x.with_logical_sharding(found).with_logical_sharding(nn::residual());
        let RopeTable { cos, sin } = nn::rope_table(&self.scope, b)?;
        let segments = arguments.get(&Role::SegmentIds).copied();
        let stacks = self.stacks().map(|role| arguments[&role]);
        let fixed = [cos, sin].into_iter().chain(segments).chain(stacks).collect();
        Ok(Stack { x, fixed })
    }

    /// The arguments of the layer computation at one turn of a loop that carries [`Stack::fixed`] and then the first layer
    /// of its span.
    fn arguments_at<'b>(&self, x: Value<'b>, fixed: &[Value<'b>], layer: Value<'b>) -> Vec<Value<'b>> {
        let shared = 2 + usize::from(self.packed());
        let (shared, stacks) = fixed.split_at(shared);
        self.layer_arguments(x, shared, stacks, layer)
    }

    /// The layer at `index` of a span whose first layer is the last of `fixed`.
    fn at<'b>(index: Value<'b>, fixed: &[Value<'b>]) -> Value<'b> {
        fixed.last().map_or(index, |&first| first + index)
    }
}

impl RematSchedule {
    fn group(self, group: Value<'_>) -> Span<'_> {
        Span { first: group * number(group.builder(), self.group_len), layers: self.group_len }
    }
}

fn number<'b>(b: &'b Builder<'b>, number: usize) -> Value<'b> {
    b.scalar(DType::S32, number as f64)
}

/// `sum` divided by the count, or by one where nothing counts.
pub(super) fn mean<'b>(sum: Value<'b>, num_label_tokens: Value<'b>) -> Value<'b> {
    let one = sum.builder().scalar(DType::S32, 1.0);
    sum / num_label_tokens.max(one).convert(DType::F32)
}
