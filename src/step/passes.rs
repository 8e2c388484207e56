//! The forward and the backward pass over the layers, and the head between them.

use indexmap::IndexMap;

use super::{
    Role, StepError,
    builder::{StepArgs, StepBuilder, index, per_label_token},
    inputs::{Cotangents, ForwardCarry, GroupsCarry, LayerCaptures, LayerResiduals, SharedInputs},
    layer::Layer,
    layer_slice::LayerSlice,
    remat::{LayerRange, RematSchedule},
    scopes::{BACKWARD, BACKWARD_HEAD, BACKWARD_LAYERS, FORWARD, FORWARD_LAYERS, FORWARD_LOSS, RESIDUALS},
};
use crate::{
    autodiff::{self, REMATTED, SavePolicy},
    base::{ArrayShape, DType, MemorySpace},
    hlo::{Builder, CompId, Iteration, Value, ValueTree},
    mesh::{Dim, LogicalSharding, WithLogicalSharding},
    model::{
        Param, TrainableId,
        nn::{self, ModelScope, NextToken},
        sizes,
    },
};

impl StepBuilder<'_> {
    /// The mean loss and the gradient of each trainable tensor.
    pub(super) fn loss_and_gradients<'b>(
        &self,
        b: &'b Builder<'b>,
        args: &StepArgs<'b>,
        targets: NextToken<'b>,
    ) -> Result<(Value<'b>, IndexMap<TrainableId, Value<'b>>), StepError> {
        let NextToken { target, num_label_tokens } = targets;
        let (x, captures) = b.root_scope(FORWARD, || self.embedded(b, args))?;
        let remat = self.remat();
        let schedule = self.remat_schedule(remat);
        let mut layer = self.layer(b.module(), remat.save_policy())?;
        let group_input = LayerSlice { memory: schedule.group_inputs, ..layer.residuals.x.clone() };
        layer.residuals.x.memory = schedule.layer_inputs;
        let pass = LayerPass { step: self, schedule, layer, group_input };

        let (x, inputs, tail, residuals) = b.root_scope(FORWARD_LAYERS, || {
            let first = index(b, schedule.num_groups * schedule.group_len);
            let tail = LayerRange { first, len: schedule.tail_len };
            let (x, inputs) = pass.groups_forward(b, x, &captures)?;
            let (x, residuals) = pass.forward_with_residuals(b, tail, x, &captures)?;
            Ok::<_, StepError>((x, inputs, tail, residuals))
        })?;
        let one = || b.scalar(DType::F32, 1.0);
        let cotangent = b.root_scope(BACKWARD_HEAD, || per_label_token(one(), num_label_tokens));
        let head = self.head_loss_and_cotangents(b, args, x, target, cotangent)?;

        let Cotangents { x: dx, gradients } = b.root_scope(BACKWARD_LAYERS, || {
            let gradients = self.zero_gradients(b, self.catalog.stacked_ids());
            let carry = Cotangents { x: head.dx.with_logical_sharding(nn::residual()), gradients };
            let carry = pass.backward(b, tail, carry, &captures, residuals)?;
            pass.groups_backward(b, carry, &captures, inputs)
        })?;
        let mut found: IndexMap<TrainableId, Value<'b>> =
            gradients.into_iter().chain(head.gradients).collect();
        let embed = TrainableId::Param(Param::Embed);
        if self.catalog.workload.trainable.contains(Param::Embed) {
            let gradient = b.root_scope(BACKWARD, || self.embedding_gradient(b, args, dx))?;
            found.entry(embed).and_modify(|sum| *sum = *sum + gradient).or_insert(gradient);
        }
        let gradients = self.catalog.ids().map(|id| (id, found[&id])).collect();
        Ok((b.root_scope(FORWARD_LOSS, || per_label_token(head.loss, num_label_tokens)), gradients))
    }

    /// The gradient of the embedding table, from the cotangent `dx [batch, seq, embed]` of the embedded tokens: in float32,
    /// since a frequent token has a sum of many.
    fn embedding_gradient<'b>(
        &self,
        b: &'b Builder<'b>,
        args: &StepArgs<'b>,
        dx: Value<'b>,
    ) -> Result<Value<'b>, StepError> {
        let module = b.module();
        let scope = ModelScope { t: DType::F32, ..self.scope };
        let ids = args[&Role::InputIds];
        let table = ArrayShape::new(DType::F32, [scope.config.vocab_size, scope.config.hidden_size]);
        let embed = module.try_define("embed", |b| {
            let (table, ids) = (b.parameter("table", table.clone()), b.parameter("ids", ids.array()));
            Ok::<_, StepError>(nn::embed(&scope, table, ids)?)
        })?;
        let backward =
            autodiff::backward(module, self.scope.templates.vjps(), embed, &[0], SavePolicy::Nothing)?;
        // As in the forward pass, each device has the features of its own shard.
        let dx = dx.with_logical_sharding(nn::residual()).with_logical_sharding(self.found_in_table());
        let gradient = b.named_scope("embed_tokens", || {
            // The rule reads the table's shape only.
            let arguments = [b.full(table, 0.0), ids, dx.convert(DType::F32)];
            b.call(backward.computation, &arguments).get(0)
        });
        let role = Role::Gradient(TrainableId::Param(Param::Embed));
        Ok(gradient.with_logical_sharding(self.catalog.logical_sharding(role)))
    }

    /// The sharding of the rows that each device finds in its own shard of the embedding table.
    fn found_in_table(&self) -> LogicalSharding {
        let table = self.catalog.tensor(self.catalog.role(Param::Embed));
        LogicalSharding::compute_as_stored(nn::residual().dims, table.name, Dim::Embed)
    }

    /// Runs all layers forward; returns the output of the last, `[batch, seq, embed]`.
    pub(super) fn forward<'b>(
        &self,
        b: &'b Builder<'b>,
        args: &StepArgs<'b>,
    ) -> Result<Value<'b>, StepError> {
        let (x, captures) = b.root_scope(FORWARD, || self.embedded(b, args))?;
        let layer = self.forward_layer(b.module())?.computation;
        b.root_scope(FORWARD_LAYERS, || {
            let all = LayerRange { first: index(b, 0), len: self.num_layers() };
            self.layers_forward(b, all, layer, x, &captures)
        })
    }

    /// Runs layers forward; returns the output of the last.
    fn layers_forward<'b>(
        &self,
        b: &'b Builder<'b>,
        range: LayerRange<'b>,
        layer: CompId,
        x: Value<'b>,
        captures: &LayerCaptures<'b>,
    ) -> Result<Value<'b>, StepError> {
        b.fori_loop("forward", range.len, x, (captures.clone(), range.first), |iteration| {
            let Iteration { b, index, carry: x, captures: (captures, first) } = iteration;
            let inputs = self.layer_inputs(x, &captures, first + index)?;
            Ok(b.call(layer, &inputs.flatten()))
        })
    }

    /// The embedded tokens `[batch, seq, embed]`, and the loop invariants of the loops over the layers.
    fn embedded<'b>(
        &self,
        b: &'b Builder<'b>,
        args: &StepArgs<'b>,
    ) -> Result<(Value<'b>, LayerCaptures<'b>), StepError> {
        // Each device looks up all tokens in its own shard of the table: the rows found are communicated, not the table.
        let x = nn::embed(&self.scope, self.param(args, Param::Embed), args[&Role::InputIds])?;
        let x = x.with_logical_sharding(self.found_in_table()).with_logical_sharding(nn::residual());
        let rope = nn::rope_table(&self.scope, b)?;
        let segments = args.get(&Role::SegmentIds).copied();
        let stacks = self.catalog.stacks().map(|role| (role, args[&role])).collect();
        Ok((x, LayerCaptures { shared: SharedInputs { rope, segments }, stacks }))
    }

    /// One layer's gradient of each trainable tensor with stacked layers.
    fn gradient_slices(&self) -> IndexMap<TrainableId, LayerSlice> {
        let slice = |id| {
            let tensor = self.catalog.tensor(Role::Gradient(id));
            let shape = ArrayShape::new(tensor.dtype, sizes(&tensor.dims[1..]));
            let logical = self.catalog.logical_sharding(Role::Gradient(id)).layer_slice();
            (id, LayerSlice { shape, logical: Some(logical), memory: MemorySpace::Device })
        };
        self.catalog.stacked_ids().map(slice).collect()
    }

    /// Zero gradients, with all layers stacked.
    pub(super) fn zero_gradients<'b>(
        &self,
        b: &'b Builder<'b>,
        ids: impl Iterator<Item = TrainableId>,
    ) -> IndexMap<TrainableId, Value<'b>> {
        let zeros = |id| {
            let role = Role::Gradient(id);
            let logical = self.catalog.logical_sharding(role);
            let zeros = || b.full(self.catalog.tensor(role).shape(), 0.0).with_logical_sharding(logical);
            (id, b.named_scope(&role.to_string(), zeros))
        };
        b.root_scope(BACKWARD_LAYERS, || ids.map(zeros).collect())
    }
}

/// Both passes over layers that are differentiated.
struct LayerPass<'s> {
    step: &'s StepBuilder<'s>,
    schedule: RematSchedule,
    layer: Layer,
    /// The input of the first layer of a group.
    group_input: LayerSlice,
}

impl LayerPass<'_> {
    /// Runs all groups forward; returns the output of the last, and the input of each as a stack.
    fn groups_forward<'b>(
        &self,
        b: &'b Builder<'b>,
        x: Value<'b>,
        captures: &LayerCaptures<'b>,
    ) -> Result<(Value<'b>, Option<Value<'b>>), StepError> {
        let Self { schedule, group_input, .. } = self;
        if schedule.num_groups == 0 {
            return Ok((x, None));
        }
        let zeros = || group_input.zeros(b, schedule.num_groups);
        let init = GroupsCarry { x, inputs: b.named_scope(RESIDUALS, zeros) };
        let last = b.fori_loop("groups", schedule.num_groups, init, captures.clone(), |iteration| {
            let Iteration { b, index: group, carry: GroupsCarry { x, inputs }, captures } = iteration;
            let inputs = b.named_scope(RESIDUALS, || group_input.write(inputs, group, x));
            let range = schedule.group(group);
            let x = self.step.layers_forward(b, range, self.layer.forward, x, &captures)?;
            Ok::<_, StepError>(GroupsCarry { x, inputs })
        })?;
        Ok((last.x, Some(last.inputs)))
    }

    /// Runs all groups backward, each after running it forward again.
    fn groups_backward<'b>(
        &self,
        b: &'b Builder<'b>,
        carry: Cotangents<'b>,
        captures: &LayerCaptures<'b>,
        inputs: Option<Value<'b>>,
    ) -> Result<Cotangents<'b>, StepError> {
        let Some(inputs) = inputs else { return Ok(carry) };
        let Self { schedule, group_input, .. } = self;
        let captures = (captures.clone(), inputs);
        b.fori_loop("groups.backward", schedule.num_groups, carry, captures, |iteration| {
            let Iteration { b, index: done, carry, captures: (captures, inputs) } = iteration;
            let group = index(b, schedule.num_groups - 1) - done;
            let x = b.named_scope(RESIDUALS, || group_input.read(inputs, group));
            let (_, residuals) = b.named_scope(REMATTED, || {
                self.forward_with_residuals(b, schedule.group(group), x, &captures)
            })?;
            self.backward(b, schedule.group(group), carry, &captures, residuals)
        })
    }

    /// Runs layers forward; returns the output of the last, and the residuals of each, stacked.
    fn forward_with_residuals<'b>(
        &self,
        b: &'b Builder<'b>,
        range: LayerRange<'b>,
        x: Value<'b>,
        captures: &LayerCaptures<'b>,
    ) -> Result<(Value<'b>, LayerResiduals<Value<'b>>), StepError> {
        let slices = &self.layer.residuals;
        let zeros = |slice: &LayerSlice| slice.zeros(b, range.len);
        let residuals = b.named_scope(RESIDUALS, || LayerResiduals {
            x: zeros(&slices.x),
            saved: slices.saved.iter().map(zeros).collect(),
        });
        let captures = (captures.clone(), range.first);
        let init = ForwardCarry { x, residuals };
        let last = b.fori_loop("forward", range.len, init, captures, |iteration| {
            let Iteration { b, index, carry, captures: (captures, first) } = iteration;
            let inputs = self.step.layer_inputs(carry.x, &captures, first + index)?;
            let (x, found) = self.layer.forward_with_residuals(b, &inputs);
            let saved = slices.saved.iter().zip(carry.residuals.saved).zip(found.saved);
            let residuals = b.named_scope(RESIDUALS, || LayerResiduals {
                x: slices.x.write(carry.residuals.x, index, found.x),
                saved: saved.map(|((slice, stack), value)| slice.write(stack, index, value)).collect(),
            });
            Ok::<_, StepError>(ForwardCarry { x, residuals })
        })?;
        Ok((last.x, last.residuals))
    }

    /// Runs layers backward. `carry.x` is the cotangent of the output of the last layer; the result has that of the input of the
    /// first; the gradients of these layers are written into `carry.gradients`.
    fn backward<'b>(
        &self,
        b: &'b Builder<'b>,
        range: LayerRange<'b>,
        carry: Cotangents<'b>,
        captures: &LayerCaptures<'b>,
        residuals: LayerResiduals<Value<'b>>,
    ) -> Result<Cotangents<'b>, StepError> {
        let slices = &self.layer.residuals;
        let gradient_slices = self.step.gradient_slices();
        let captures = (residuals, (captures.clone(), range.first));
        b.fori_loop("backward", range.len, carry, captures, |iteration| {
            let Iteration { b, index: done, carry, captures: (residuals, (captures, first)) } = iteration;
            let index = index(b, range.len - 1) - done;
            let layer = first + index;
            let (x, saved) = b.named_scope(RESIDUALS, || {
                let x = slices.x.read(residuals.x, index);
                let saved = slices.saved.iter().zip(residuals.saved);
                (x, saved.map(|(slice, stack)| slice.read(stack, index)).collect::<Vec<_>>())
            });
            let inputs = self.step.layer_inputs(x, &captures, layer)?;
            let found = self.layer.vjp(b, &inputs, carry.x, &saved);
            let gradients = carry.gradients.into_iter().map(|(id, stack)| {
                let gradient = || found.gradients[&id].convert(DType::F32);
                let write = || gradient_slices[&id].write(stack, layer, gradient());
                (id, b.named_scope(&Role::Gradient(id).to_string(), write))
            });
            Ok(Cotangents {
                x: found.x.with_logical_sharding(nn::residual()),
                gradients: gradients.collect(),
            })
        })
    }
}
