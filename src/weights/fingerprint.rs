//! Fingerprint of a checkpoint's weights, without reading all of them.

use std::ops::Range;

use sha2::{Digest, Sha256};

use super::Checkpoint;
use crate::base::hex;

/// A tensor of at most this many bytes is hashed completely.
const WHOLE: usize = 64 << 10;
/// Number and size in bytes of the hashed pieces of a larger one, evenly spread from its first byte to its last.
const PIECES: usize = 16;
const PIECE: usize = WHOLE / PIECES;

impl Checkpoint {
    /// SHA-256 over the name, dims, storage type and bytes of every tensor; of a tensor above 64 KiB, over 16 pieces of
    /// 4 KiB, evenly spread. It depends neither on the path nor on how the tensors are divided among files. Weights that
    /// were trained further or replaced differ everywhere, and are found; a single changed element may not be.
    pub fn fingerprint(&self) -> String {
        let mut digest = Sha256::new();
        for (name, tensor) in self.tensors() {
            digest.update(format!(
                "{name}\0{:?}\0{}\0{:?}\0",
                tensor.info.dims, tensor.info.stored, tensor.rows
            ));
            for array in tensor.arrays() {
                pieces(array.len()).for_each(|piece| digest.update(&array[piece]));
            }
            // Of a large model, the pieces alone are many megabytes.
            tensor.release();
        }
        hex(digest.finalize())
    }
}

/// The hashed pieces of a tensor of `bytes` bytes.
fn pieces(bytes: usize) -> impl Iterator<Item = Range<usize>> {
    let (count, size) = if bytes <= WHOLE { (1, bytes) } else { (PIECES, PIECE) };
    let last = (bytes - size) as u128;
    let start = move |piece: usize| (last * piece as u128 / (count as u128 - 1).max(1)) as usize;
    (0..count).map(move |piece| start(piece)..start(piece) + size)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, fs, path::Path};

    use super::*;
    use crate::{base::Literal, weights::write_safetensors};

    fn tensors(first: f32) -> BTreeMap<String, Literal> {
        let mut values: Vec<f32> = (0..40_000).map(|i| i as f32).collect();
        values[0] = first;
        BTreeMap::from([
            ("a".to_owned(), Literal::f32s([200, 200], &values)),
            ("b".to_owned(), Literal::f32s([2], &[1.0, 2.0])),
        ])
    }

    fn fingerprint(path: &Path) -> String {
        Checkpoint::open(path).unwrap().fingerprint()
    }

    #[test]
    fn the_fingerprint_is_that_of_the_tensors_and_not_of_the_files() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let write = |name: &str, tensors| write_safetensors(&at(name), &tensors, &BTreeMap::new()).unwrap();
        write("whole.safetensors", tensors(0.5));
        write("moved.safetensors", tensors(0.5));
        write("other.safetensors", tensors(0.25));
        fs::create_dir(at("shards")).unwrap();
        for (name, tensor) in tensors(0.5) {
            write(&format!("shards/{name}.safetensors"), BTreeMap::from([(name, tensor)]));
        }
        let index = r#"{"weight_map": {"a": "a.safetensors", "b": "b.safetensors"}}"#;
        fs::write(at("shards/model.safetensors.index.json"), index).unwrap();
        let whole = fingerprint(&at("whole.safetensors"));
        assert_eq!(fingerprint(&at("moved.safetensors")), whole);
        assert_eq!(fingerprint(&at("shards")), whole);
        assert_ne!(fingerprint(&at("other.safetensors")), whole);
    }

    #[test]
    fn pieces_reach_from_the_first_byte_to_the_last() {
        for bytes in [0, 1, WHOLE] {
            assert!(pieces(bytes).eq(std::iter::once(0..bytes)));
        }
        for bytes in [WHOLE + 1, 1 << 20, (1 << 40) + 7] {
            let pieces: Vec<_> = pieces(bytes).collect();
            assert_eq!((pieces.len(), pieces[0].start, pieces[PIECES - 1].end), (PIECES, 0, bytes));
            assert!(pieces.iter().all(|piece| piece.len() == PIECE));
        }
    }
}
