use std::fmt;

use serde::{Serialize, Serializer};

macro_rules! linears {
    ($( $(#[$doc:meta])* $variant:ident = $parent:literal, $name:literal, $gguf:literal; )*) => {
        /// One of the seven linear maps of a transformer layer, in the order in which a layer uses them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Linear { $( $(#[$doc])* $variant, )* }

        impl Linear {
            /// Every linear; `ALL[linear as usize] == linear`.
            pub const ALL: [Linear; 7] = [$( Linear::$variant, )*];

            /// Last component of the module path: `q_proj`.
            pub const fn name(self) -> &'static str {
                match self { $( Self::$variant => $name, )* }
            }

            /// Module path inside the layer: `self_attn.q_proj`.
            pub const fn path(self) -> &'static str {
                match self { $( Self::$variant => concat!($parent, ".", $name), )* }
            }

            /// Tensor name inside a GGUF block: `attn_q`.
            pub const fn gguf_name(self) -> &'static str {
                match self { $( Self::$variant => $gguf, )* }
            }
        }
    };
}

linears! {
    /// From the residual stream to the queries.
    Query = "self_attn", "q_proj", "attn_q";
    /// From the residual stream to the keys.
    Key = "self_attn", "k_proj", "attn_k";
    /// From the residual stream to the values.
    Value = "self_attn", "v_proj", "attn_v";
    /// From the attended values back to the residual stream.
    Output = "self_attn", "o_proj", "attn_output";
    /// From the residual stream to the gate of the feed-forward block.
    Gate = "mlp", "gate_proj", "ffn_gate";
    /// From the residual stream to the gated features.
    Up = "mlp", "up_proj", "ffn_up";
    /// From the gated features back to the residual stream.
    Down = "mlp", "down_proj", "ffn_down";
}

impl Linear {
    /// The full name of the module in transformers: `model.layers.0.self_attn.q_proj`.
    pub fn module_name(self, layer: usize) -> String {
        format!("model.layers.{layer}.{}", self.path())
    }
}

impl Serialize for Linear {
    /// As its name.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
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
