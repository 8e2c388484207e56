//! One layer: its computation, what the forward pass over it leaves for the backward one, and that one's computation.

use std::collections::BTreeMap;

use super::{
    Role, StepError,
    build::StepBuilder,
    layer_slice::{LayerSlice, slice_on_device},
};
use crate::{
    autodiff::{self, Backward, SavePolicy},
    base::{ArrayShape, DType, Literal, LogicalSharding, MemorySpace, Shape},
    hlo::{Attrs, Builder, CompId, Computation, InstrId, ModuleBuilder, Opcode, Value},
    model::{
        AdapterId, AdapterSpec, Factor, Linear, NamedDims, ParamSpec,
        llama::{self, LayerValues},
        nn::{self, LoraValues, RopeTable, Scope},
        sizes,
    },
};

/// A layer that can be differentiated.
pub struct Layer {
    /// Gives the layer's output, from what [`StepBuilder::layer_arguments`] lists.
    pub forward: CompId,
    /// Gives the output and what is kept.
    keeping: CompId,
    /// Gives the cotangents of the layer's input and of each factor.
    backward: CompId,
    /// What the forward pass leaves for the backward one: the layer's input, then the elements of what is kept.
    pub residuals: Vec<LayerSlice>,
    /// The layer's input where it is the first of a group.
    pub group_input: LayerSlice,
    /// The number of elements, where a kept value is a tuple.
    kept: Vec<Option<usize>>,
}

impl Layer {
    /// The layer's output and its residuals.
    pub fn run<'b>(&self, b: &'b Builder<'b>, arguments: &[Value<'b>]) -> (Value<'b>, Vec<Value<'b>>) {
        let mut found = b.call(self.keeping, arguments).elements();
        let kept = found.split_off(1).into_iter().zip(&self.kept);
        let elements = kept.flat_map(|(value, elements)| match elements {
            None => vec![value],
            Some(_) => value.elements(),
        });
        (found[0], [arguments[0]].into_iter().chain(elements).collect())
    }

    /// The cotangents of the layer's input and of each factor, from the cotangent of its output; `kept` are the residuals
    /// after the input.
    pub fn vjp<'b>(
        &self,
        b: &'b Builder<'b>,
        arguments: &[Value<'b>],
        cotangent: Value<'b>,
        kept: &[Value<'b>],
    ) -> Vec<Value<'b>> {
        let mut rest = kept;
        let mut all = [arguments, &[cotangent]].concat();
        for elements in &self.kept {
            let (these, others) = rest.split_at(elements.unwrap_or(1));
            all.push(if elements.is_some() { b.tuple(these) } else { these[0] });
            rest = others;
        }
        b.call(self.backward, &all).elements()
    }
}

impl StepBuilder<'_> {
    /// The layer and its backward computation, which keeps of the former what `keep` says.
    pub fn layer(&self, module: &ModuleBuilder, keep: SavePolicy) -> Result<Layer, StepError> {
        let forward = self.forward_layer(module)?;
        let primal = module.get(forward);
        let parameters = primal.parameters();
        let factors = self.catalog.adapters.len();
        // The input is the first parameter; the factors stand behind all else, but for the scales.
        let end = parameters.len() - self.adapted().count();
        let wrt: Vec<usize> = [0].into_iter().chain(end - factors..end).collect();
        let Backward { computation, residuals: kept } = autodiff::backward(module, forward, &wrt, keep)?;
        let keeping = autodiff::forward_with_residuals(module, forward, &kept);
        let shape = array(&primal.instr(parameters[0]).shape);
        let input = LayerSlice { shape, logical: Some(nn::residual()), memory: MemorySpace::Device };
        let elements = kept.iter().flat_map(|&id| entries(&primal, id));
        let group_input = input.clone();
        let residuals = [input].into_iter().chain(elements).collect();
        let kept = kept.iter().map(|&id| primal.instr(id).shape.as_tuple().map(<[Shape]>::len)).collect();
        Ok(Layer { forward, keeping, backward: computation, residuals, group_input, kept })
    }

    /// What a layer takes an entry of: stacked parameters, then adapter factors.
    pub fn stacks(&self) -> impl Iterator<Item = Role> {
        self.stacked().map(|spec| Role::Base(spec.param)).chain(self.catalog.ids().map(Role::Adapter))
    }

    /// The arguments of a layer: its input, what it has in common with all layers, its entry of each stack and, for each
    /// linear that has an adapter, a scale.
    pub fn layer_arguments<'b>(
        &self,
        x: Value<'b>,
        shared: &[Value<'b>],
        stacks: &[Value<'b>],
        layer: Value<'b>,
    ) -> Vec<Value<'b>> {
        let entries = self.stacks().zip(stacks).map(|(role, &stack)| {
            // One layer is gathered at a time, and let go.
            let logical = self.catalog.logical(role).layer_slice();
            let entry = slice_on_device(stack, layer, self.spec.options.memory(role));
            entry.with_logical_sharding(logical.clone()).with_logical_sharding(logical.in_compute())
        });
        let scales = self.adapted().map(|linear| self.scale(layer, linear));
        [x].into_iter().chain(shared.iter().copied()).chain(entries).chain(scales).collect()
    }

    /// The computation of one layer, from what [`StepBuilder::layer_arguments`] lists.
    pub fn forward_layer(&self, module: &ModuleBuilder) -> Result<CompId, StepError> {
        let &Scope { config, t, batch, seq, .. } = &self.scope;
        module.try_define("layer", |b| {
            let x = b.parameter("x", ArrayShape::new(t, [batch, seq, config.hidden_size]));
            let phases = ArrayShape::new(DType::F32, [seq, 2, config.head_dim / 2]);
            let table =
                RopeTable { cos: b.parameter("cos", phases.clone()), sin: b.parameter("sin", phases) };
            let segments =
                self.packed().then(|| b.parameter("segments", ArrayShape::new(DType::S32, [batch, seq])));
            let entry = |role: Role, dtype, dims: &NamedDims| {
                b.parameter(&role.to_string(), ArrayShape::new(dtype, sizes(&dims[1..])))
            };
            let base =
                self.stacked().map(|spec| (spec.param, entry(Role::Base(spec.param), t, &spec.dims())));
            let base = base.collect();
            let factor =
                |spec: &AdapterSpec| (spec.id, entry(Role::Adapter(spec.id), DType::F32, &spec.dims));
            let factors: BTreeMap<AdapterId, Value<'_>> = self.catalog.adapters.iter().map(factor).collect();
            let adapter = |linear| {
                let factor = |factor| factors[&AdapterId { linear, factor }];
                let scale = b.parameter("scale", ArrayShape::scalar(DType::F32));
                (linear, LoraValues { a: factor(Factor::A), b: factor(Factor::B), scale })
            };
            let adapters = self.adapted().map(adapter).collect();
            let values = LayerValues { base, adapters };
            Ok::<_, StepError>(llama::layer(&self.scope, x, table, segments, &values)?)
        })
    }

    /// The parameters that every layer has.
    fn stacked(&self) -> impl Iterator<Item = &ParamSpec> {
        self.catalog.base.iter().filter(|spec| spec.layers.is_some())
    }

    /// The linears that have adapters, in the order of their factors.
    fn adapted(&self) -> impl Iterator<Item = Linear> {
        self.catalog.ids().filter(|id| id.factor == Factor::A).map(|id| id.linear)
    }

    /// The scale of a linear's adapter at `layer`; a constant where all layers have the same.
    fn scale<'b>(&self, layer: Value<'b>, linear: Linear) -> Value<'b> {
        let scales: Vec<f32> =
            self.spec.workload.lora.scales(linear).into_iter().map(|scale| scale as f32).collect();
        let b = layer.builder();
        if scales.windows(2).all(|pair| pair[0] == pair[1]) {
            let scale = scales.first().copied().unwrap_or_default();
            return b.scalar(DType::F32, f64::from(scale));
        }
        b.constant(Literal::f32s([scales.len()], &scales)).dynamic_index_in_dim(layer)
    }
}

/// The arrays of a value, each with how it lies.
fn entries(primal: &Computation, id: InstrId) -> Vec<LayerSlice> {
    let instr = primal.instr(id);
    let last = |logical_shardings: &[LogicalSharding]| logical_shardings.last().cloned();
    match &instr.shape {
        Shape::Array(shape) => {
            vec![LayerSlice {
                shape: shape.clone(),
                logical: last(&instr.logical_shardings),
                memory: MemorySpace::Device,
            }]
        }
        Shape::Tuple(elements) => {
            let taken = |index: usize| {
                let mut takers = primal.iter().map(|(_, instr)| instr).filter(|instr| {
                    instr.opcode == Opcode::GetTupleElement
                        && instr.operands == [id]
                        && instr.attrs == Attrs::TupleIndex(index)
                });
                takers.find_map(|instr| last(&instr.logical_shardings))
            };
            let entry = |(index, shape)| LayerSlice {
                shape: array(shape),
                logical: taken(index),
                memory: MemorySpace::Device,
            };
            elements.iter().enumerate().map(entry).collect()
        }
    }
}

/// The shape of an array.
fn array(shape: &Shape) -> ArrayShape {
    shape.as_array().cloned().expect("nothing that a layer keeps is a tuple of tuples")
}
