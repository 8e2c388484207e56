//! The two passes over the stack of layers, and the head between them.

use std::collections::BTreeMap;

use super::{
    Role, StepError,
    build::{Arguments, Weaver},
    stack::{Order, Turn, at_layer, empty_stack, for_each_layer, set_layer},
};
use crate::{
    autodiff,
    base::{ArrayShape, DType, Dim, Literal, Tag, Use},
    hlo::{Builder, CompId, ModuleBuilder, Value},
    model::{
        AdapterId, AdapterSpec, Factor, Linear, NamedDims, Param, ParamSpec,
        llama::{self, LayerValues},
        nn::{self, LoraValues, RopeTable, Scope},
        sizes,
    },
};

/// What both passes over the stack begin with.
struct Stack<'b> {
    /// The computation of one layer.
    layer: CompId,
    /// `[batch, seq, embed]`, the embedded tokens.
    x: Value<'b>,
    /// What the loops carry unchanged: the two rope tables, then what [`Weaver::stacks`] lists.
    fixed: Vec<Value<'b>>,
}

impl Weaver<'_> {
    /// The mean loss and the gradient of every adapter factor.
    pub(super) fn loss_and_gradients<'b>(
        &self,
        b: &'b Builder<'b>,
        arguments: &Arguments<'b>,
        target: Value<'b>,
        counted: Value<'b>,
    ) -> Result<(Value<'b>, Vec<(AdapterId, Value<'b>)>), StepError> {
        let stack = self.stack(b, arguments)?;
        let (x, layer_inputs) = self.forward_keeping_inputs(b, &stack)?;
        let head = self.head_loss(b.module())?;
        let head_arguments = self.head_arguments(arguments, x, target);
        let loss = mean(b.call(head, &head_arguments), counted);

        let head_backward = autodiff::backward(b.module(), head, &[0], &[])?;
        let cotangent = mean(b.scalar(DType::F32, 1.0), counted);
        let dx = b.call(head_backward, &[&head_arguments[..], &[cotangent]].concat()).get(0);
        Ok((loss, self.backward(b, &stack, layer_inputs, dx)?))
    }

    /// The computation from the last layer's output to the sum of the loss.
    pub(super) fn head_loss(&self, module: &ModuleBuilder) -> Result<CompId, StepError> {
        let &Scope { config, t, batch, seq, .. } = &self.scope;
        module.try_define("head_loss", |b| {
            let x = b.parameter("x", ArrayShape::new(t, [batch, seq, config.hidden_size]));
            let norm = b.parameter("norm", ArrayShape::new(t, [config.hidden_size]));
            let head = b.parameter("head", ArrayShape::new(t, [config.vocab_size, config.hidden_size]));
            let target = b.parameter("target", ArrayShape::new(DType::S32, [batch, seq]));
            let logits = llama::logits(&self.scope, x, norm, head)?;
            Ok::<_, StepError>(nn::loss(&self.scope, logits, target)?)
        })
    }

    pub(super) fn head_arguments<'b>(
        &self,
        arguments: &Arguments<'b>,
        x: Value<'b>,
        target: Value<'b>,
    ) -> [Value<'b>; 4] {
        [x, arguments[&Role::Base(Param::FinalNorm)], arguments[&self.head()], target]
    }

    /// Runs the stack forward and gives the last layer's output, `[batch, seq, embed]`.
    pub(super) fn forward<'b>(
        &self,
        b: &'b Builder<'b>,
        arguments: &Arguments<'b>,
    ) -> Result<Value<'b>, StepError> {
        let Stack { layer, x, fixed } = self.stack(b, arguments)?;
        let last = for_each_layer(b, "forward", self.layers(), Order::Forward, &[x], &fixed, |turn| {
            Ok(vec![turn.b.call(layer, &self.layer_arguments(&turn, turn.carried[0]))])
        })?;
        Ok(last[0])
    }

    /// Runs the stack forward; besides the output gives the input of each layer, `[layers, batch, seq, embed]`.
    fn forward_keeping_inputs<'b>(
        &self,
        b: &'b Builder<'b>,
        stack: &Stack<'b>,
    ) -> Result<(Value<'b>, Value<'b>), StepError> {
        let &Stack { layer, x, ref fixed } = stack;
        let tag = layer_inputs();
        let shape = ArrayShape::new(x.dtype(), [&[self.layers()], &x.dims()[..]].concat());
        let carried = [x, empty_stack(b, shape, &tag)];
        let last = for_each_layer(b, "forward", self.layers(), Order::Forward, &carried, fixed, |turn| {
            let (x, inputs) = (turn.carried[0], turn.carried[1]);
            let y = turn.b.call(layer, &self.layer_arguments(&turn, x));
            Ok(vec![y, set_layer(inputs, turn.layer, x, &tag)])
        })?;
        Ok((last[0], last[1]))
    }

    /// Runs the stack backward from the cotangent of its output, and collects the gradients.
    fn backward<'b>(
        &self,
        b: &'b Builder<'b>,
        stack: &Stack<'b>,
        layer_inputs: Value<'b>,
        dx: Value<'b>,
    ) -> Result<Vec<(AdapterId, Value<'b>)>, StepError> {
        let factors = stack.fixed.len() - self.catalog.adapters.len()..stack.fixed.len();
        // The layer's parameters are its input and then, but for the scales, an entry of each fixed value.
        let wrt: Vec<usize> = [0].into_iter().chain(factors.clone().map(|index| index + 1)).collect();
        let layer_backward = autodiff::backward(b.module(), stack.layer, &wrt, &[])?;

        let tags: Vec<Tag> = self.catalog.ids().map(|id| self.catalog.tag(Role::Gradient(id))).collect();
        let empty = factors.zip(&tags).map(|(index, tag)| empty_stack(b, stack.fixed[index].array(), tag));
        let carried: Vec<Value<'b>> = [dx.tagged(nn::residual())].into_iter().chain(empty).collect();
        let fixed = [&stack.fixed[..], &[layer_inputs]].concat();
        let last = for_each_layer(b, "backward", self.layers(), Order::Backward, &carried, &fixed, |turn| {
            let x = at_layer(turn.fixed[turn.fixed.len() - 1], turn.layer).tagged(nn::residual());
            let layer_arguments = self.layer_arguments(&turn, x);
            let found = turn.b.call(layer_backward, &[&layer_arguments[..], &[turn.carried[0]]].concat());
            let gradients = turn.carried[1..].iter().zip(&tags).enumerate();
            let gradients = gradients
                .map(|(index, (&stack, tag))| set_layer(stack, turn.layer, found.get(index + 1), tag));
            Ok([found.get(0).tagged(nn::residual())].into_iter().chain(gradients).collect())
        })?;
        Ok(self.catalog.ids().zip(last.into_iter().skip(1)).collect())
    }

    fn layers(&self) -> usize {
        self.scope.config.num_hidden_layers
    }

    fn stacked(&self) -> impl Iterator<Item = &ParamSpec> {
        self.catalog.base.iter().filter(|spec| spec.layers.is_some())
    }

    /// What a layer takes an entry of: stacked parameters, then adapter factors.
    fn stacks(&self) -> impl Iterator<Item = Role> {
        let base = self.stacked().map(|spec| Role::Base(spec.param));
        base.chain(self.catalog.ids().map(Role::Adapter))
    }

    fn stack<'b>(&self, b: &'b Builder<'b>, arguments: &Arguments<'b>) -> Result<Stack<'b>, StepError> {
        // Each device looks up all tokens in the part of the table that it holds; what then moves is the rows found,
        // not the table.
        let table = self.catalog.tensor(Role::Base(Param::Embed));
        let found = Tag { used: Use::Lookup { param: table.name }, ..nn::residual() };
        let x = nn::embed(&self.scope, arguments[&Role::Base(Param::Embed)], arguments[&Role::InputIds])?;
        let x = x.tagged(found).tagged(nn::residual());
        let RopeTable { cos, sin } = nn::rope_table(&self.scope, b)?;
        let stacks = self.stacks().map(|role| arguments[&role]);
        let fixed = [cos, sin].into_iter().chain(stacks).collect();
        Ok(Stack { layer: self.layer(b.module())?, x, fixed })
    }

    /// The arguments of the layer computation at one turn of a loop over the stack.
    fn layer_arguments<'b>(&self, turn: &Turn<'b>, x: Value<'b>) -> Vec<Value<'b>> {
        let (tables, stacks) = turn.fixed.split_at(2);
        let entries = self.stacks().zip(stacks).map(|(role, &stack)| {
            // One layer is gathered at a time, and let go.
            let tag = self.catalog.tag(role).entry();
            at_layer(stack, turn.layer).tagged(tag.clone()).tagged(tag.computed())
        });
        let scales = self.adapted().map(|linear| self.scale(turn.layer, linear));
        [x].into_iter().chain(tables.iter().copied()).chain(entries).chain(scales).collect()
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
        at_layer(b.constant(Literal::f32s([scales.len()], &scales)), layer)
    }

    /// The computation of one layer. It takes the layer's input, the rope tables, parameters, adapter factors and, for
    /// each linear that has them, a scale.
    fn layer(&self, module: &ModuleBuilder) -> Result<CompId, StepError> {
        let &Scope { config, t, batch, seq, .. } = &self.scope;
        module.try_define("layer", |b| {
            let x = b.parameter("x", ArrayShape::new(t, [batch, seq, config.hidden_size]));
            let phases = ArrayShape::new(DType::F32, [seq, 2, config.head_dim / 2]);
            let table =
                RopeTable { cos: b.parameter("cos", phases.clone()), sin: b.parameter("sin", phases) };
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
            Ok::<_, StepError>(llama::layer(&self.scope, x, table, &LayerValues { base, adapters })?)
        })
    }
}

/// How the stack of layer inputs lies, `[layers, batch, seq, embed]`.
fn layer_inputs() -> Tag {
    Tag::compute([&[Dim::Layers], &nn::residual().dims[..]].concat())
}

/// `sum` divided by the count, or by one where nothing counts.
pub(super) fn mean<'b>(sum: Value<'b>, counted: Value<'b>) -> Value<'b> {
    let one = sum.builder().scalar(DType::S32, 1.0);
    sum / counted.max(one).convert(DType::F32)
}
