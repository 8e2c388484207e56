//! `quantization_config` of `config.json`: how the weights of linears are stored.

use serde_json::Value;

use super::fields::{Fields, excerpt};
use crate::base::{Scheme, Setting};

const KEY: &str = "quantization_config";

/// The scheme of the stored weights; `None` if they are not quantized, and after a diagnostic. Source: `BitsAndBytesConfig` of
/// transformers 5.24.
pub(super) fn read(fields: &mut Fields<'_>) -> Option<Scheme> {
    let value = fields.get(KEY)?;
    let is = |key: &str, expected: Value| value.get(key) == Some(&expected);
    let is_nf4 = is("quant_method", "bitsandbytes".into())
        && is("load_in_4bit", true.into())
        && is("bnb_4bit_quant_type", "nf4".into());
    if is_nf4 {
        return Some(if is("bnb_4bit_use_double_quant", true.into()) {
            Scheme::Nf4Double
        } else {
            Scheme::Nf4
        });
    }
    if is("quant_method", "bitsandbytes".into()) && is("load_in_8bit", true.into()) {
        return Some(Scheme::Int8);
    }
    let found = excerpt(value);
    fields.find_with_hint(
        KEY,
        format!("expected 4-bit NormalFloat or 8-bit integers of bitsandbytes, found {found}"),
        format!("use the model's original weights: {} quantizes them", Setting::Base.with("nf4")),
    );
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{base::Diagnostics, model::Config};

    fn read(quantization: Value) -> Result<Config, Diagnostics> {
        let mut config = serde_json::to_value(toml_of_tiny()).unwrap();
        config[KEY] = quantization;
        Config::from_hf(&config, "c.json")
    }

    fn toml_of_tiny() -> toml::Value {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/models/tiny.toml");
        toml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    #[test]
    fn nf4_and_int8_are_read_and_other_formats_are_refused() {
        let nf4 = |double| {
            json!({
                "quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_quant_type": "nf4",
                "bnb_4bit_use_double_quant": double,
            })
        };
        assert_eq!(read(nf4(false)).unwrap().quantized, Some(Scheme::Nf4));
        assert_eq!(read(nf4(true)).unwrap().quantized, Some(Scheme::Nf4Double));
        let int8 = json!({"quant_method": "bitsandbytes", "load_in_8bit": true});
        assert_eq!(read(int8).unwrap().quantized, Some(Scheme::Int8));
        assert_eq!(read(Value::Null).unwrap().quantized, None);
        let hint = "  hint: use the model's original weights: setting `base = nf4` quantizes them";
        for (quantization, found) in [
            (json!({"quant_method": "gptq", "bits": 4}), r#"{"quant_method":"gptq","bits":4}"#),
            (
                json!({"quant_method": "bitsandbytes", "load_in_4bit": true}),
                r#"{"quant_method":"bitsandbytes","load_in_4bit":true}"#,
            ),
        ] {
            let expect = format!(
                "c.json: `quantization_config`: expected 4-bit NormalFloat or 8-bit integers of bitsandbytes, found \
                 {found}\n{hint}"
            );
            assert_eq!(read(quantization).unwrap_err().to_string().trim_end(), expect);
        }
    }
}
