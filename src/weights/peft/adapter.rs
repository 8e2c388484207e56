use std::{collections::BTreeMap, fs, path::Path};

use serde_json::{Value, json};

use super::{
    super::{
        Checkpoint, WeightsError,
        files::{self, read_json},
        layout::{self, ADAPTER_CONFIG as CONFIG},
        safetensors,
    },
    config::AdapterConfig,
};
use crate::{
    base::{DType, Diagnostic, Diagnostics, Literal, Location, output::Pending},
    model::Factor,
};

const PICKLED: &str = "adapter_model.bin";
const TENSORS: &str = "adapter_model.safetensors";
const A: &str = Factor::A.tensor_suffix();
const B: &str = Factor::B.tensor_suffix();
pub(super) const PREFIX: &str = "base_model.model.";

/// A LoRA adapter with PEFT's tensor names, in float32.
///
/// # Examples
/// ```
/// use std::collections::BTreeMap;
///
/// use hloom::{
///     base::Literal,
///     weights::{Adapter, AdapterConfig, TargetModules, read_adapter, write_adapter},
/// };
///
/// let module = "base_model.model.model.layers.0.self_attn.q_proj";
/// let adapter = Adapter {
///     config: AdapterConfig::new(1, 2.0, TargetModules::Names(vec!["q_proj".into()])),
///     tensors: BTreeMap::from([
///         (format!("{module}.lora_A.weight"), Literal::f32s([1, 2], &[0.5, -0.5])),
///         (format!("{module}.lora_B.weight"), Literal::f32s([2, 1], &[0.0, 0.0])),
///     ]),
/// };
/// let folder = tempfile::tempdir()?;
/// write_adapter(folder.path(), &adapter)?;
/// assert_eq!(read_adapter(folder.path())?, adapter);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Adapter {
    /// Ranks, scales and targets.
    pub config: AdapterConfig,
    /// `base_model.model.` + module path + `.lora_A.weight` of `[r, in]` and `.lora_B.weight` of `[out, r]`, in pairs.
    pub tensors: BTreeMap<String, Literal>,
}

/// Reads the adapter in a folder; its tensors are converted to float32.
///
/// # Errors
/// If a file is missing or malformed, or the config is not supported. The tensors are not checked against the config, see
/// [`Adapter::fit_names`] and [`Adapter::check_pairs`].
pub fn read_adapter(folder: &Path) -> Result<Adapter, WeightsError> {
    files::refuse_dangling(folder)?;
    let Some(config_path) = files::find(folder, CONFIG)? else { return Err(layout::not_an_adapter(folder)) };
    let tensors_path = match files::find(folder, TENSORS)? {
        Some(path) => path,
        None if folder.join(PICKLED).is_file() => {
            return Err(WeightsError::Layout {
                path: folder.to_owned(),
                problem: format!("no {TENSORS}, found {PICKLED}"),
                hint: "convert it to safetensors: load the adapter with PEFT and call `save_pretrained`"
                    .to_owned(),
            });
        }
        None => return Err(WeightsError::MissingFile { folder: folder.to_owned(), file: TENSORS }),
    };
    let config = AdapterConfig::from_json(&config_path, read_json::<Value>(&config_path)?)?;
    let checkpoint = Checkpoint::new(&tensors_path, safetensors::open(&tensors_path)?);
    let tensor = |name: &str| Ok((name.to_owned(), checkpoint.literal(name, DType::F32)?));
    let tensors = checkpoint.names().map(tensor).collect::<Result<_, WeightsError>>()?;
    Ok(Adapter { config, tensors })
}

/// Writes an adapter for PEFT into `folder`, which is created if missing. Neither file is replaced before both are synced
/// to disk.
///
/// # Errors
/// If a file cannot be written, or the tensors are not pairs, see [`Adapter::check_pairs`].
pub fn write_adapter(folder: &Path, adapter: &Adapter) -> Result<(), WeightsError> {
    let (config_path, tensors_path) = (folder.join(CONFIG), folder.join(TENSORS));
    adapter.check_pairs(&tensors_path.display().to_string())?;
    fs::create_dir_all(folder).map_err(|source| WeightsError::Io {
        action: "create",
        path: folder.to_owned(),
        source,
    })?;
    let metadata = BTreeMap::from([("format".to_owned(), "pt".to_owned())]);
    let in_tensors = |source| WeightsError::write(&tensors_path, source);
    let in_config = |source| WeightsError::write(&config_path, source);
    let tensors = safetensors::pending(&tensors_path, &adapter.tensors, &metadata).map_err(in_tensors)?;
    let mut config = json!(adapter.config);
    // So that PEFT loads the adapter for inference.
    config["inference_mode"] = json!(true);
    let config = Pending::write(&config_path, |out| writeln!(out, "{config:#}")).map_err(in_config)?;
    tensors.commit().map_err(in_tensors)?;
    config.commit().map_err(in_config)
}

impl Adapter {
    /// Checks that the tensors are pairs of float32 matrices of the same rank, which is the config's `r` unless it has a
    /// rank pattern. Diagnostics are located in `file`.
    ///
    /// # Errors
    /// One diagnostic for every tensor that is not in such a pair.
    pub fn check_pairs(&self, file: &str) -> Result<(), Diagnostics> {
        let Self { config, tensors } = self;
        let mut diagnostics = Diagnostics::default();
        let mut find = |name: &str, problem: String| {
            diagnostics.push(Diagnostic::error(Location::file(file).at(name), problem));
        };
        for (name, tensor) in tensors {
            let Some(partner) = partner(name) else {
                find(name, format!("expected {PREFIX}MODULE{A} or {B}, found another name"));
                continue;
            };
            let shape = tensor.shape();
            if shape.dtype != DType::F32 || shape.rank() != 2 {
                find(name, format!("expected a float32 matrix, found {shape}"));
                continue;
            }
            let Some(other) = tensors.get(&partner) else {
                let half = if partner.ends_with(A) { A } else { B };
                find(name, format!("missing {half} of the pair"));
                continue;
            };
            if name.ends_with(B) {
                continue;
            }
            let rank = shape.dims[0];
            if other.shape().rank() == 2 && other.shape().dims[1] != rank {
                find(
                    name,
                    format!("expected [r, in] beside [out, r], found {shape} beside {}", other.shape()),
                );
            } else if config.rank_pattern.0.is_empty() && config.r != rank {
                find(name, format!("expected the rank of {CONFIG}, {}, found {rank}", config.r));
            }
        }
        diagnostics.grouped(file).into_result(())
    }
}

/// Name of the other factor; `None` if `name` is not a factor of an adapter.
fn partner(name: &str) -> Option<String> {
    name.strip_prefix(PREFIX)?;
    let to_b = name.strip_suffix(A).map(|module| format!("{module}{B}"));
    to_b.or_else(|| name.strip_suffix(B).map(|module| format!("{module}{A}")))
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Patterns, TargetModules},
        *,
    };
    use crate::base::ArrayShape;

    fn adapter() -> Adapter {
        let targets = TargetModules::Names(vec!["q_proj".to_owned()]);
        let alpha_pattern = Patterns(vec![("z".to_owned(), 1.5), ("a".to_owned(), 3.0)]);
        let name = |half: &str| format!("base_model.model.model.layers.0.self_attn.q_proj{half}");
        Adapter {
            config: AdapterConfig { alpha_pattern, ..AdapterConfig::new(2, 4.0, targets) },
            tensors: BTreeMap::from([
                (name(A), Literal::f32s([2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])),
                (name(B), Literal::f32s([4, 2], &[0.5; 8])),
            ]),
        }
    }

    #[test]
    fn an_adapter_reads_back_as_written() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("new");
        write_adapter(&folder, &adapter()).unwrap();
        assert_eq!(read_adapter(&folder).unwrap(), adapter());
        let mut files: Vec<_> =
            fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name()).collect();
        files.sort();
        assert_eq!(files, [CONFIG, TENSORS]);
        let config = fs::read_to_string(folder.join(CONFIG)).unwrap();
        assert!(config.contains("\"lora_alpha\": 4,"), "{config}");
        assert!(config.contains("\"inference_mode\": true"), "{config}");
    }

    #[test]
    fn halves_that_do_not_fit_are_refused() {
        let check = |change: fn(&mut BTreeMap<String, Literal>), expect: &str| {
            let mut adapter = adapter();
            change(&mut adapter.tensors);
            let folder = tempfile::tempdir().unwrap();
            let error = write_adapter(folder.path(), &adapter).unwrap_err().to_string();
            let location = format!("{}: `base_model.model.", folder.path().join(TENSORS).display());
            assert_eq!(error.replace(&location, ""), expect);
        };
        check(
            |tensors| drop(tensors.pop_last()),
            "model.layers.0.self_attn.q_proj.lora_A.weight`: missing .lora_B.weight of the pair",
        );
        check(
            |tensors| *tensors.values_mut().next().unwrap() = Literal::f32s([1, 3], &[0.0; 3]),
            "model.layers.0.self_attn.q_proj.lora_A.weight`: expected [r, in] beside [out, r], \
             found f32[1,3] beside f32[4,2]",
        );
        check(
            |tensors| {
                *tensors.values_mut().next().unwrap() = Literal::zeros(ArrayShape::new(DType::F32, [3]))
            },
            "model.layers.0.self_attn.q_proj.lora_A.weight`: expected a float32 matrix, found f32[3]",
        );
        check(
            |tensors| drop(tensors.insert("base_model.model.x".into(), Literal::f32s([1], &[0.0]))),
            "x`: expected base_model.model.MODULE.lora_A.weight or .lora_B.weight, found another name",
        );
    }
}
