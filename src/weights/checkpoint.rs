use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    path::{Path, PathBuf},
};

use super::{
    TensorInfo, WeightsError, folder, gguf::Gguf, safetensors, stored::READABLE, tensor::MappedTensor,
};
use crate::base::{ArrayShape, DType, Finding, Findings, Literal, Place};

/// The tensors of a model on disk under their Hugging Face names, whatever the container.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    path: PathBuf,
    tensors: BTreeMap<String, MappedTensor>,
    warnings: Vec<Finding>,
}

impl Checkpoint {
    /// Maps the tensors at `path`: a Hugging Face folder, one safetensors file, or a GGUF file of a Llama.
    ///
    /// # Errors
    /// If a file is missing or cut short, or any header contradicts itself. No tensor is read.
    pub fn open(path: &Path) -> Result<Self, WeightsError> {
        let tensors = if path.is_dir() {
            folder::open(path)?
        } else if Gguf::is_at(path)? {
            Gguf::open(path)?.tensors()?
        } else if path.extension().is_some_and(|extension| extension == "safetensors") {
            safetensors::open(path)?
        } else {
            return Err(WeightsError::NotAModel(path.to_owned()));
        };
        Ok(Self::new(path, tensors))
    }

    pub(super) fn new(path: &Path, tensors: BTreeMap<String, MappedTensor>) -> Self {
        Self { path: path.to_owned(), tensors, warnings: vec![] }
    }

    /// What the files leave open or contradict, and how that was resolved.
    pub fn warnings(&self) -> &[Finding] {
        &self.warnings
    }

    /// Where the checkpoint lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Every tensor's Hugging Face name, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// Sizes and storage of a tensor.
    pub fn get(&self, name: &str) -> Option<&TensorInfo> {
        self.tensors.get(name).map(|tensor| &tensor.info)
    }

    /// Reads a box of a tensor, one index range a dimension, straight from the mapped file: row-major, little-endian,
    /// as `dtype` (f32, bf16 or f16, rounded to nearest even), into `out` of exactly that size.
    ///
    /// # Errors
    /// If there is no such tensor, its stored type or `dtype` cannot be converted, the window is not inside it, or
    /// `out` has another size.
    pub fn read(
        &self,
        name: &str,
        window: &[Range<usize>],
        dtype: DType,
        out: &mut [u8],
    ) -> Result<(), WeightsError> {
        self.tensor(name)?.read(name, window, dtype, out)
    }

    /// Gives back the memory that reading a tensor took: the part of the file that is mapped for it.
    ///
    /// # Errors
    /// If there is no such tensor.
    pub fn release(&self, name: &str) -> Result<(), WeightsError> {
        let tensor = self.tensor(name)?;
        tensor.file.release(tensor.bytes.clone());
        Ok(())
    }

    /// A whole tensor as `dtype`.
    ///
    /// # Errors
    /// Like [`Checkpoint::read`].
    pub fn literal(&self, name: &str, dtype: DType) -> Result<Literal, WeightsError> {
        let tensor = self.tensor(name)?;
        let window: Vec<_> = tensor.info.dims.iter().map(|&dim| 0..dim).collect();
        let mut literal = Literal::zeros(ArrayShape::new(dtype, tensor.info.dims.clone()));
        tensor.read(name, &window, dtype, literal.bytes_mut())?;
        Ok(literal)
    }

    /// Holds the files against the tensors a model needs. Finds every missing name, wrong shape and type that cannot
    /// be read, and every name in the files that is neither expected nor `ignorable`.
    ///
    /// # Errors
    /// All that was found.
    pub fn check_names<'a>(
        &self,
        expected: impl IntoIterator<Item = (&'a str, &'a [usize])>,
        ignorable: impl Fn(&str) -> bool,
    ) -> Result<(), Findings> {
        let mut findings = Findings::default();
        let mut used = BTreeSet::new();
        for (name, dims) in expected {
            used.insert(name);
            match self.tensors.get(name) {
                None => findings.push(self.finding(&self.path, name, "missing".into())),
                Some(tensor) => {
                    check_tensor(tensor, dims).into_iter().for_each(|problem| {
                        findings.push(self.finding(tensor.path(), name, problem));
                    });
                }
            }
        }
        for (name, tensor) in &self.tensors {
            if !used.contains(name.as_str()) && !ignorable(name) {
                findings.push(self.finding(
                    tensor.path(),
                    name,
                    "no parameter of the model has this name".into(),
                ));
            }
        }
        findings.into_result(())
    }

    /// The tensors by their Hugging Face names.
    pub(super) fn tensors(&self) -> impl Iterator<Item = (&str, &MappedTensor)> {
        self.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor))
    }

    fn finding(&self, path: &Path, name: &str, problem: String) -> Finding {
        Finding::new(Place::file(path.display().to_string()).at(name), problem)
    }

    fn tensor(&self, name: &str) -> Result<&MappedTensor, WeightsError> {
        let missing = || WeightsError::NoSuchTensor { path: self.path.clone(), name: name.to_owned() };
        self.tensors.get(name).ok_or_else(missing)
    }
}

fn check_tensor(tensor: &MappedTensor, dims: &[usize]) -> Vec<String> {
    let TensorInfo { dims: found, stored } = &tensor.info;
    let mut problems = Vec::new();
    if found != dims {
        problems.push(format!("expected shape {dims:?}, found {found:?}"));
    }
    if !stored.is_readable() {
        problems.push(format!("expected element type {READABLE}, found {stored}"));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_is_found_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.safetensors");
        let tensors = BTreeMap::from([
            ("a".to_owned(), Literal::f32s([2, 3], &[0.0; 6])),
            ("b".to_owned(), Literal::s32s([4], &[0; 4])),
            ("extra".to_owned(), Literal::f32s([1], &[0.0])),
            ("rotary_emb.inv_freq".to_owned(), Literal::f32s([1], &[0.0])),
        ]);
        super::super::write_safetensors(&path, &tensors, &BTreeMap::new()).unwrap();
        let checkpoint = Checkpoint::open(folder.path()).unwrap();
        let ignorable = |name: &str| name.ends_with("rotary_emb.inv_freq");
        let expected: [(&str, &[usize]); 3] = [("a", &[3, 2]), ("b", &[4]), ("c", &[1])];
        let findings = checkpoint.check_names(expected, ignorable).unwrap_err();
        let text = findings.to_string().replace(&folder.path().display().to_string(), "DIR");
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "DIR/model.safetensors: `a`: expected shape [3, 2], found [2, 3]",
                "DIR/model.safetensors: `b`: expected element type f32, f16, bf16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 or Q2_K to Q8_K, found s32",
                "DIR: `c`: missing",
                "DIR/model.safetensors: `extra`: no parameter of the model has this name",
            ]
        );
        let fine: [(&str, &[usize]); 1] = [("a", &[2, 3])];
        assert_eq!(checkpoint.check_names(fine, |name| name != "a"), Ok(()));
    }
}
