//! Adapters as GGUF files, as llama.cpp loads them. Source: `convert_lora_to_gguf.py` and `llama_adapter_lora_init_impl` of
//! llama.cpp.

use std::{io, io::Write, path::Path};

use super::super::{WeightsError, tensor::RowOrder};
use crate::{
    base::output::Pending,
    model::arch::{GgufArchitecture, RotaryRows},
};

const ALIGNMENT: usize = 32;
const VERSION: u32 = 3;
/// Number of float32 in `enum ggml_type`.
const F32: u32 = 0;
/// Numbers of `enum gguf_type`.
const FLOAT: u32 = 6;
const STRING: u32 = 8;

/// A factor of an adapter.
#[derive(Clone, Debug, PartialEq)]
pub struct GgufFactor {
    /// Its name: `blk.0.attn_q.weight.lora_a`.
    pub name: String,
    /// Rows and columns: `A` is `[rank, in]`, `B` is `[out, rank]`.
    pub dims: [usize; 2],
    /// Its values, row-major.
    pub values: Vec<f32>,
}

impl GgufFactor {
    /// The factor `B` of a query or key projection, with the rows of its heads in the order that files of `architecture` have.
    pub fn with_rotary_rows(self, architecture: GgufArchitecture, head_dim: usize) -> Self {
        let order = match architecture.rotary_rows {
            RotaryRows::Halves => return self,
            RotaryRows::Interleaved => RowOrder::Interleaved { head_dim },
        };
        let [rows, columns] = self.dims;
        let row = |row: usize| &self.values[order.hf_row(row) * columns..][..columns];
        let values = (0..rows).flat_map(row).copied().collect();
        Self { values, ..self }
    }
}

/// Writes an adapter for models of `architecture`; llama.cpp scales it by `alpha` divided by the rank of each factor.
///
/// # Errors
/// If the file cannot be written.
pub fn write_gguf_lora(
    path: &Path,
    architecture: GgufArchitecture,
    alpha: f32,
    factors: &[GgufFactor],
) -> Result<(), WeightsError> {
    let content = |out: &mut dyn Write| write(out, architecture, alpha, factors);
    let written = Pending::write(path, content).and_then(Pending::commit);
    written.map_err(|source| WeightsError::write(path, source))
}

fn write(
    out: &mut dyn Write,
    architecture: GgufArchitecture,
    alpha: f32,
    factors: &[GgufFactor],
) -> io::Result<()> {
    let texts =
        [("general.type", "adapter"), ("general.architecture", architecture.name), ("adapter.type", "lora")];
    let mut head = b"GGUF".to_vec();
    head.extend(VERSION.to_le_bytes());
    head.extend((factors.len() as u64).to_le_bytes());
    head.extend((texts.len() as u64 + 1).to_le_bytes());
    for (key, value) in texts {
        string(&mut head, key);
        head.extend(STRING.to_le_bytes());
        string(&mut head, value);
    }
    string(&mut head, "adapter.lora.alpha");
    head.extend(FLOAT.to_le_bytes());
    head.extend(alpha.to_le_bytes());
    let mut offset = 0;
    for GgufFactor { name, dims: [rows, columns], values } in factors {
        string(&mut head, name);
        head.extend(2_u32.to_le_bytes());
        // The innermost dimension comes first.
        [columns, rows].iter().for_each(|&&size| head.extend((size as u64).to_le_bytes()));
        head.extend(F32.to_le_bytes());
        head.extend((offset as u64).to_le_bytes());
        offset += padded(4 * values.len());
    }
    head.resize(padded(head.len()), 0);
    out.write_all(&head)?;
    for GgufFactor { values, .. } in factors {
        let mut bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        bytes.resize(padded(bytes.len()), 0);
        out.write_all(&bytes)?;
    }
    Ok(())
}

fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGNMENT)
}

fn string(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}
