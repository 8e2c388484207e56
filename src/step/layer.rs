//! One layer: its forward computation, its residuals, and its backward computation.

use indexmap::IndexMap;

use super::{
    Role, StepError,
    builder::StepBuilder,
    inputs::{Cotangents, LayerCaptures, LayerInputs, LayerResiduals, SharedInputs},
    layer_slice::{LayerSlice, slice_on_device},
};
use crate::{
    autodiff::{self, Backward, SavePolicy},
    base::{ArrayShape, DType, Literal, MemorySpace, PartFormat, Scheme, Shape},
    hlo::{Attrs, Builder, CompId, InstrId, ModuleBuilder, Opcode, Value, ValueTree},
    mesh::{LogicalSharding, WithLogicalSharding, last_logical_sharding},
    model::{
        AdapterId, Factor, Features, Linear, Param, PartId, TrainableId, features,
        llama::{self, LayerValues},
        nn::{self, LoraValues, ModelScope, RopeTable},
        sizes,
    },
};

/// The forward computation of a layer.
#[derive(Clone)]
pub(super) struct ForwardLayer {
    /// Takes [`LayerInputs`]; returns the layer's output.
    pub computation: CompId,
    /// The parameters that are differentiated: `x`, then the trainable tensors.
    wrt: Vec<usize>,
}

/// A layer that can be differentiated.
pub(super) struct Layer {
    pub forward: CompId,
    /// Returns the output and the saved values.
    forward_with_residuals: CompId,
    /// Takes [`LayerInputs`], the cotangent of the output and the saved values; returns [`Cotangents`].
    backward: CompId,
    /// The slices of its residuals in their stacks.
    pub residuals: LayerResiduals<LayerSlice>,
    /// Of each saved value, the number of elements if it is a tuple.
    tuple_lens: Vec<Option<usize>>,
    trainable: Vec<TrainableId>,
}

impl Layer {
    /// The layer's output and its residuals.
    pub(super) fn forward_with_residuals<'b>(
        &self,
        b: &'b Builder<'b>,
        inputs: &LayerInputs<'b>,
    ) -> (Value<'b>, LayerResiduals<Value<'b>>) {
        let mut results = b.call(self.forward_with_residuals, &inputs.flatten()).elements();
        let saved = results.split_off(1).into_iter().zip(&self.tuple_lens);
        let saved = saved.flat_map(|(value, tuple_len)| match tuple_len {
            None => vec![value],
            Some(_) => value.elements(),
        });
        (results[0], LayerResiduals { x: inputs.x, saved: saved.collect() })
    }

    /// The cotangent of the layer's input and the gradients, from the cotangent of its output.
    pub(super) fn vjp<'b>(
        &self,
        b: &'b Builder<'b>,
        inputs: &LayerInputs<'b>,
        cotangent: Value<'b>,
        saved: &[Value<'b>],
    ) -> Cotangents<'b> {
        let mut args = inputs.flatten();
        args.push(cotangent);
        let mut rest = saved;
        for tuple_len in &self.tuple_lens {
            let (elements, others) = rest.split_at(tuple_len.unwrap_or(1));
            args.push(if tuple_len.is_some() { b.tuple(elements) } else { elements[0] });
            rest = others;
        }
        let results = b.call(self.backward, &args).elements();
        let gradients = self.trainable.iter().copied().zip(results.iter().skip(1).copied());
        Cotangents { x: results[0], gradients: gradients.collect() }
    }
}

impl StepBuilder<'_> {
    /// The layer with its backward computation, which reads the values that `policy` saves.
    pub(super) fn layer(&self, module: &ModuleBuilder, policy: SavePolicy) -> Result<Layer, StepError> {
        let ForwardLayer { computation: forward, wrt } = self.forward_layer(module)?;
        let primal = module.get(forward);
        let Backward { computation: backward, residuals } =
            autodiff::backward(module, self.scope.templates.vjps(), forward, &wrt, policy)?;
        let forward_with_residuals = autodiff::forward_with_residuals(module, forward, &residuals);
        let shape = array(&primal.instr(primal.parameters()[0]).shape);
        let x = LayerSlice { shape, logical: Some(nn::residual()), memory: MemorySpace::Device };
        let saved = residuals.iter().flat_map(|&id| slices(module, forward, id)).collect();
        let tuple_len = |&id: &InstrId| primal.instr(id).shape.as_tuple().map(<[Shape]>::len);
        Ok(Layer {
            forward,
            forward_with_residuals,
            backward,
            residuals: LayerResiduals { x, saved },
            tuple_lens: residuals.iter().map(tuple_len).collect(),
            trainable: self.catalog.stacked_ids().collect(),
        })
    }

    /// The forward computation of one layer.
    pub(super) fn forward_layer(&self, module: &ModuleBuilder) -> Result<ForwardLayer, StepError> {
        let mut wrt = Vec::new();
        let computation = module.try_define("layer", |b| {
            let inputs = self.layer_parameters(b);
            let adapter = |linear| {
                let factor = |factor| {
                    let id = TrainableId::Adapter(AdapterId { linear, factor });
                    inputs.params[&Role::Trainable(id)]
                };
                let scale = inputs.scales[&linear];
                (linear, LoraValues { a: factor(Factor::A), b: factor(Factor::B), scale })
            };
            let base = inputs.params.iter().filter_map(|(&role, &value)| match role {
                Role::Base(PartId { param, part: None }) | Role::Trainable(TrainableId::Param(param)) => {
                    Some((param, value))
                }
                _ => None,
            });
            let values =
                LayerValues { base: base.collect(), adapters: self.catalog.adapted().map(adapter).collect() };
            let trained = self.catalog.stacked_ids().map(|id| inputs.params[&Role::Trainable(id)]);
            let trained: Vec<InstrId> = [inputs.x].into_iter().chain(trained).map(Value::id).collect();
            let parameters = inputs.flatten();
            wrt = trained
                .iter()
                .filter_map(|&id| parameters.iter().position(|parameter| parameter.id() == id))
                .collect();
            let SharedInputs { rope, segments } = inputs.shared;
            Ok::<_, StepError>(llama::layer(&self.scope, inputs.x, rope, segments, &values)?)
        })?;
        Ok(ForwardLayer { computation, wrt })
    }

    fn layer_parameters<'b>(&self, b: &'b Builder<'b>) -> LayerInputs<'b> {
        let &ModelScope { config, t, batch, seq, .. } = &self.scope;
        let x = b.parameter("x", ArrayShape::new(t, [batch, seq, config.hidden_size]));
        let table = ArrayShape::new(DType::F32, [seq, 2, config.head_dim / 2]);
        let rope = RopeTable { cos: b.parameter("cos", table.clone()), sin: b.parameter("sin", table) };
        let ids = || ArrayShape::new(DType::S32, [batch, seq]);
        let segments = self.is_packed().then(|| b.parameter("segments", ids()));
        let param = |role: Role| {
            let tensor = self.catalog.tensor(role);
            let dtype = self.layer_dtype(role, tensor.dtype);
            let shape = ArrayShape::new(dtype, sizes(&tensor.dims[1..]));
            (role, b.parameter(&role.to_string(), shape))
        };
        let params = self.catalog.layer_params().map(param).collect();
        let scale = |linear| (linear, b.parameter("scale", ArrayShape::scalar(DType::F32)));
        let scales = self.catalog.adapted().map(scale).collect();
        LayerInputs { x, shared: SharedInputs { rope, segments }, params, scales }
    }

    /// The inputs of the layer numbered `layer`, with its slice of each stack.
    pub(super) fn layer_inputs<'b>(
        &self,
        x: Value<'b>,
        captures: &LayerCaptures<'b>,
        layer: Value<'b>,
    ) -> Result<LayerInputs<'b>, StepError> {
        let b = x.builder();
        let mut params = IndexMap::new();
        for role in self.catalog.layer_params() {
            let value = match self.catalog.scheme(role) {
                None => self.gathered(captures, role, layer),
                Some((param, scheme)) => self.dequantized(captures, param, scheme, layer)?,
            };
            params.insert(role, value);
        }
        let scales = self.catalog.adapted().map(|linear| {
            let scale = || self.scale(layer, linear);
            (linear, b.named_scope(linear.name(), scale).named("scale"))
        });
        let scales = scales.collect();
        Ok(LayerInputs { x, shared: captures.shared, params, scales })
    }

    /// The slice of a stack at `layer`, as the layer computes with it. One layer is gathered at a time, and freed after it.
    fn gathered<'b>(&self, captures: &LayerCaptures<'b>, role: Role, layer: Value<'b>) -> Value<'b> {
        let stack = captures.stacks[&role];
        let stored = self.catalog.logical_sharding(role).layer_slice();
        let name = role.to_string();
        let slice = || slice_on_device(stack.named(&name), layer, self.spec.options.memory(role));
        let slice = stack.builder().named_scope(&name, slice);
        let computed = stored.in_compute();
        let slice = slice.with_logical_sharding(stored);
        let slice = slice.convert(self.layer_dtype(role, slice.array().dtype));
        slice.with_logical_sharding(computed)
    }

    /// The weight at `layer` of a quantized parameter. Its parts are gathered as they are stored, and the weight is not a
    /// residual: the backward pass dequantizes it again.
    fn dequantized<'b>(
        &self,
        captures: &LayerCaptures<'b>,
        param: Param,
        scheme: Scheme,
        layer: Value<'b>,
    ) -> Result<Value<'b>, StepError> {
        let part = |format: &PartFormat| {
            self.gathered(captures, Role::Base(PartId { param, part: Some(format.part) }), layer)
        };
        let parts: Vec<Value<'b>> = scheme.parts().iter().map(part).collect();
        let role = Role::Base(PartId::whole(param));
        let Param::Weight(linear) = param else { unreachable!("only weights of linears are quantized") };
        let Features { input, output } = features(linear, self.scope.config);
        let weight = layer.builder().named_scope(&role.to_string(), || {
            let (output, input) = (sizes(&output), sizes(&input));
            nn::dequantize(self.scope.templates, self.scope.t, scheme, &parts, &output, &input)
        })?;
        Ok(weight.with_logical_sharding(self.catalog.logical_sharding(role).layer_slice().in_compute()))
    }

    /// The element type of a layer's slice: weights are computed with in the compute type; factors and parts of quantized
    /// weights stay as they are stored.
    fn layer_dtype(&self, role: Role, stored: DType) -> DType {
        match role {
            Role::Base(PartId { part: None, .. }) | Role::Trainable(TrainableId::Param(_)) => self.scope.t,
            _ => stored,
        }
    }

    /// The scale of a linear's adapter at `layer`: a constant where it is the same in all layers.
    fn scale<'b>(&self, layer: Value<'b>, linear: Linear) -> Value<'b> {
        let scales = self.spec.workload.trainable.lora().map_or_else(Vec::new, |plan| plan.scales(linear));
        let scales: Vec<f32> = scales.into_iter().map(|scale| scale as f32).collect();
        let b = layer.builder();
        match &scales[..] {
            [first, rest @ ..] if rest.iter().all(|scale| scale == first) => {
                b.scalar(DType::F32, f64::from(*first))
            }
            _ => b.constant(Literal::f32s([scales.len()], &scales)).dynamic_index_in_dim(layer),
        }
    }
}

/// The slices of a value of the computation `primal`: one, or one for each element of a tuple.
fn slices(module: &ModuleBuilder, primal: CompId, id: InstrId) -> Vec<LayerSlice> {
    let slice = |shape: &Shape, logical: Option<LogicalSharding>| LayerSlice {
        shape: array(shape),
        logical,
        memory: MemorySpace::Device,
    };
    let logical = |id: InstrId| last_logical_sharding(module, primal, id);
    let computation = module.get(primal);
    match &computation.instr(id).shape {
        shape @ Shape::Array(_) => vec![slice(shape, logical(id))],
        Shape::Tuple(elements) => {
            let of_element = |index: usize| {
                let mut users = computation.iter().filter(|(_, user)| {
                    user.opcode == Opcode::GetTupleElement
                        && user.operands == [id]
                        && user.attrs == Attrs::TupleIndex(index)
                });
                users.find_map(|(user, _)| logical(user))
            };
            elements.iter().enumerate().map(|(index, shape)| slice(shape, of_element(index))).collect()
        }
    }
}

/// The shape of an array.
fn array(shape: &Shape) -> ArrayShape {
    shape.as_array().cloned().expect("no residual of a layer is a tuple of tuples")
}
