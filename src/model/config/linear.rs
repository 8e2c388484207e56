use std::fmt;

use super::Config;
use crate::model::params::{Features, NamedDims, features};

macro_rules! linears {
    ($( $(#[$doc:meta])* $variant:ident = $parent:literal, $name:literal; )*) => {
        /// One of the seven linear maps of a transformer layer, in the order in which a layer uses them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Linear { $( $(#[$doc])* $variant, )* }

        impl Linear {
            /// Every linear; `ALL[linear as usize] == linear`.
            pub const ALL: [Linear; 7] = [$( Linear::$variant, )*];

            /// The last part of the module's name: `q_proj`.
            pub const fn name(self) -> &'static str {
                match self { $( Self::$variant => $name, )* }
            }

            /// The block of the layer that holds it: `self_attn` or `mlp`.
            pub const fn parent(self) -> &'static str {
                match self { $( Self::$variant => $parent, )* }
            }
        }
    };
}

linears! {
    /// From the residual stream to the queries.
    Query = "self_attn", "q_proj";
    /// From the residual stream to the keys.
    Key = "self_attn", "k_proj";
    /// From the residual stream to the values.
    Value = "self_attn", "v_proj";
    /// From the attended values back to the residual stream.
    Output = "self_attn", "o_proj";
    /// From the residual stream to the gate of the feed-forward block.
    Gate = "mlp", "gate_proj";
    /// From the residual stream to the gated features.
    Up = "mlp", "up_proj";
    /// From the gated features back to the residual stream.
    Down = "mlp", "down_proj";
}

impl Linear {
    /// Input and output features; the weight is `[outputs, inputs]`.
    pub fn features(self, config: &Config) -> (usize, usize) {
        let Features { input, output } = features(self, config);
        let together = |dims: NamedDims| dims.iter().map(|&(_, size)| size).product();
        (together(input), together(output))
    }

    /// Whether a bias of `[outputs]` is added.
    pub fn has_bias(self, config: &Config) -> bool {
        match self {
            Self::Query | Self::Key | Self::Value | Self::Output => config.attention_bias,
            Self::Gate | Self::Up | Self::Down => config.mlp_bias,
        }
    }

    /// The full name of the module in transformers: `model.layers.0.self_attn.q_proj`.
    pub fn module_name(self, layer: usize) -> String {
        format!("model.layers.{layer}.{}.{}", self.parent(), self.name())
    }
}

impl fmt::Display for Linear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_declaration_order() {
        for (i, linear) in Linear::ALL.into_iter().enumerate() {
            assert_eq!(linear as usize, i);
        }
        assert_eq!(Linear::Down.module_name(3), "model.layers.3.mlp.down_proj");
    }
}
