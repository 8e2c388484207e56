use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    path::{Path, PathBuf},
};

use super::{
    TensorInfo, WeightsError,
    folder::{self, Folder},
    gguf::Gguf,
    layout,
    names::{describe_missing, find_prefix},
    safetensors,
    stored::{READABLE, StoredType},
    tensor::MappedTensor,
};
use crate::base::{ArrayShape, DType, Diagnostic, Diagnostics, Literal, Location, Scheme};

/// The tensors of a model on disk by their Hugging Face names, in any container.
///
/// # Examples
/// ```
/// use std::collections::BTreeMap;
///
/// use hloom::{
///     base::{DType, Literal},
///     weights::{Checkpoint, write_safetensors},
/// };
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("model.safetensors");
/// let tensors = BTreeMap::from([("w".to_owned(), Literal::f32s([2, 2], &[1.0, 2.0, 3.0, 4.0]))]);
/// write_safetensors(&path, &tensors, &BTreeMap::new())?;
///
/// let checkpoint = Checkpoint::open(folder.path())?;
/// assert_eq!(checkpoint.get("w").unwrap().dims, [2, 2]);
/// // The second column, as float32.
/// let mut column = [0; 8];
/// checkpoint.read("w", &[0..2, 1..2], DType::F32, &mut column)?;
/// assert_eq!(column, [2f32.to_le_bytes(), 4f32.to_le_bytes()].concat()[..]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Checkpoint {
    path: PathBuf,
    tensors: BTreeMap<String, MappedTensor>,
    warnings: Vec<Diagnostic>,
}

impl Checkpoint {
    /// Maps the tensors at `path`: a Hugging Face folder, a safetensors file, or a GGUF file of a Llama model.
    ///
    /// # Errors
    /// If a file is missing or truncated, or a header is malformed. No tensor is read.
    pub fn open(path: &Path) -> Result<Self, WeightsError> {
        let tensors = if path.is_dir() {
            let Folder { tensors, warnings } = folder::open(path)?;
            return Ok(Self { warnings, ..Self::new(path, tensors) });
        } else if Gguf::is_at(path)? {
            Gguf::open(path)?.tensors()?
        } else if path.extension().is_some_and(|extension| extension == "safetensors") {
            safetensors::open(path)?
        } else {
            return Err(layout::not_a_model_file(path)?);
        };
        Ok(Self::new(path, tensors))
    }

    pub(super) fn new(path: &Path, tensors: BTreeMap<String, MappedTensor>) -> Self {
        Self { path: path.to_owned(), tensors, warnings: vec![] }
    }

    /// Warnings about omissions and contradictions in the files, and how they were resolved.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }

    /// Path of the checkpoint.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Every tensor's Hugging Face name, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.tensors.keys().map(String::as_str)
    }

    /// Dimensions and storage type of a tensor.
    pub fn get(&self, name: &str) -> Option<&TensorInfo> {
        self.tensors.get(name).map(|tensor| &tensor.info)
    }

    /// Bytes of a tensor in its file; `None` if it is missing.
    pub fn stored_bytes(&self, name: &str) -> Option<usize> {
        self.tensors.get(name).map(|tensor| tensor.bytes.len())
    }

    /// Reads a window of a tensor, one index range per dimension, from the mapped file into `out`: row-major,
    /// little-endian, as `dtype` (f32, bf16 or f16, rounded to nearest even).
    ///
    /// # Errors
    /// If the tensor is missing, its stored type or `dtype` cannot be converted, the window exceeds it, or `out` has another
    /// size than the window.
    pub fn read(
        &self,
        name: &str,
        window: &[Range<usize>],
        dtype: DType,
        out: &mut [u8],
    ) -> Result<(), WeightsError> {
        self.tensor(name)?.read(name, window, dtype, out)
    }

    /// The parts of a matrix `[out, in]` quantized by `scheme`, in the order of [`Scheme::parts`]: flat, row-major, little-endian
    /// arrays. They are borrowed from the file if that has them, else computed from the values, in parallel.
    ///
    /// # Errors
    /// If the tensor is missing or no matrix, or its values cannot be read.
    pub fn parts(&self, name: &str, scheme: Scheme) -> Result<Vec<Cow<'_, [u8]>>, WeightsError> {
        self.tensor(name)?.parts(name, scheme)
    }

    /// The scheme by which a tensor is quantized in its file; `None` if it is not, or by another format.
    pub fn stored_scheme(&self, name: &str) -> Option<Scheme> {
        match self.get(name)?.stored {
            StoredType::Packed(scheme) => Some(scheme),
            _ => None,
        }
    }

    /// Releases the memory of the mapped pages of a tensor.
    ///
    /// # Errors
    /// [`WeightsError::NoSuchTensor`] if the tensor is missing.
    pub fn release(&self, name: &str) -> Result<(), WeightsError> {
        let tensor = self.tensor(name)?;
        tensor.release();
        Ok(())
    }

    /// Reads a full tensor as `dtype`.
    ///
    /// # Errors
    /// Those of [`Checkpoint::read`].
    pub fn literal(&self, name: &str, dtype: DType) -> Result<Literal, WeightsError> {
        let tensor = self.tensor(name)?;
        // First, since the size of an unknown type was not checked against the file.
        tensor.check_types(name, dtype)?;
        let window: Vec<_> = tensor.info.dims.iter().map(|&dim| 0..dim).collect();
        let mut literal = Literal::zeros(ArrayShape::new(dtype, tensor.info.dims.clone()));
        tensor.read(name, &window, dtype, literal.bytes_mut())?;
        Ok(literal)
    }

    /// Adds a warning.
    pub fn warn(&mut self, warning: Diagnostic) {
        self.warnings.push(warning);
    }

    /// Renames the tensor `from` to `to`, if it exists.
    pub fn rename(&mut self, from: &str, to: &str) {
        if let Some(tensor) = self.tensors.remove(from) {
            self.tensors.insert(to.to_owned(), tensor);
        }
    }

    /// Whether two tensors have the same shape and values; `false` if one is missing or cannot be read.
    pub fn same_values(&self, name: &str, other: &str) -> bool {
        let (Some(one), Some(other)) = (self.tensors.get(name), self.tensors.get(other)) else {
            return false;
        };
        let same = one.same_values(other);
        [one, other].into_iter().for_each(MappedTensor::release);
        same
    }

    /// Renames the tensors to the expected names, with a warning, if they differ by a prefix only, as where a wrapper of the
    /// model was saved.
    ///
    /// # Errors
    /// One diagnostic, if the names have another prefix and expected names are missing without it.
    pub fn fit_names(
        &mut self,
        expected: &BTreeSet<&str>,
        optional: &BTreeSet<&str>,
    ) -> Result<(), Diagnostics> {
        let all: BTreeSet<&str> = expected.union(optional).copied().collect();
        let Some(prefix) = find_prefix(self.names(), &all) else { return Ok(()) };
        let (message, renamed) = (prefix.describe(""), &prefix.renamed);
        let location = Location::file(self.path.display().to_string());
        let names: BTreeSet<&str> =
            self.names().map(|name| renamed.get(name).map_or(name, String::as_str)).collect();
        let missing: Vec<&str> = expected.iter().copied().filter(|name| !names.contains(name)).collect();
        if let Some(missing) = describe_missing(&missing) {
            let message = format!("{message}; apart from the prefix, {missing}");
            return Err(Diagnostics(vec![Diagnostic::error(location, message)]));
        }
        let tensors = std::mem::take(&mut self.tensors);
        let renamed = |name: String| renamed.get(&name).cloned().unwrap_or(name);
        self.tensors = tensors.into_iter().map(|(name, tensor)| (renamed(name), tensor)).collect();
        self.warn(Diagnostic::error(location, format!("{message}; this difference is ignored")));
        Ok(())
    }

    /// Checks the tensors against those of a model: missing names, wrong shapes, types that cannot be read, and names that
    /// are neither expected nor `ignorable`.
    ///
    /// # Errors
    /// All problems, grouped over layers.
    pub fn check_names<'a>(
        &self,
        expected: impl IntoIterator<Item = (&'a str, &'a [usize])>,
        ignorable: impl Fn(&str) -> bool,
    ) -> Result<(), Diagnostics> {
        let mut diagnostics = Diagnostics::default();
        let mut used = BTreeSet::new();
        for (name, dims) in expected {
            used.insert(name);
            match self.tensors.get(name) {
                None => diagnostics.push(self.diagnostic(&self.path, name, "missing".into())),
                Some(tensor) => {
                    check_tensor(tensor, dims).into_iter().for_each(|(problem, hint)| {
                        let diagnostic = self.diagnostic(tensor.path(), name, problem);
                        diagnostics.push(Diagnostic { hint, ..diagnostic });
                    });
                }
            }
        }
        for (name, tensor) in &self.tensors {
            if !used.contains(name.as_str()) && !ignorable(name) {
                diagnostics.push(self.diagnostic(
                    tensor.path(),
                    name,
                    "no parameter of the model has this name".into(),
                ));
            }
        }
        diagnostics.grouped(&self.path.display().to_string()).into_result(())
    }

    /// Adds a warning if tensors are stored as float64, which are rounded when read.
    pub fn note_doubles(&mut self) {
        let double = StoredType::Plain(DType::F64);
        let count = self.tensors.values().filter(|tensor| tensor.info.stored == double).count();
        if count > 0 {
            let tensors = if count == 1 { "tensor is" } else { "tensors are" };
            let message = format!("{count} {tensors} stored as f64, rounded to f32 when read");
            self.warn(Diagnostic::error(Location::file(self.path.display().to_string()), message));
        }
    }

    /// The tensors by their Hugging Face names.
    pub(super) fn tensors(&self) -> impl Iterator<Item = (&str, &MappedTensor)> {
        self.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor))
    }

    fn diagnostic(&self, path: &Path, name: &str, problem: String) -> Diagnostic {
        Diagnostic::error(Location::file(path.display().to_string()).at(name), problem)
    }

    fn tensor(&self, name: &str) -> Result<&MappedTensor, WeightsError> {
        let missing = || WeightsError::NoSuchTensor { path: self.path.clone(), name: name.to_owned() };
        self.tensors.get(name).ok_or_else(missing)
    }
}

/// Problems of a tensor, with hints.
fn check_tensor(tensor: &MappedTensor, dims: &[usize]) -> Vec<(String, Option<String>)> {
    let TensorInfo { dims: found, stored } = &tensor.info;
    let mut problems = Vec::new();
    if found != dims {
        problems.push((format!("expected shape {dims:?}, found {found:?}"), None));
    }
    if !stored.is_readable() {
        let problem = format!("expected element type {READABLE}, found {stored}");
        let integer_or_float8 = match stored {
            StoredType::Plain(_) => true,
            StoredType::Other(name) => name.starts_with("F8") || name.starts_with("F4"),
            StoredType::Quantized(_) | StoredType::Packed(_) => false,
        };
        let hint = "the weights are quantized: use the model's original weights, in 16 or 32 bits";
        problems.push((problem, integer_or_float8.then(|| hint.to_owned())));
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
        let diagnostics = checkpoint.check_names(expected, ignorable).unwrap_err();
        let text = diagnostics.to_string().replace(&folder.path().display().to_string(), "DIR");
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "DIR/model.safetensors: `a`: expected shape [3, 2], found [2, 3]",
                &format!("DIR/model.safetensors: `b`: expected element type {READABLE}, found s32"),
                "  hint: the weights are quantized: use the model's original weights, in 16 or 32 bits",
                "DIR: `c`: missing",
                "DIR/model.safetensors: `extra`: no parameter of the model has this name",
            ]
        );
        let fine: [(&str, &[usize]); 1] = [("a", &[2, 3])];
        assert_eq!(checkpoint.check_names(fine, |name| name != "a"), Ok(()));
    }
}
