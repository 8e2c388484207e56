//! A small GGUF writer for tests.

const ALIGNMENT: usize = 32;

#[derive(Clone, Default)]
pub(crate) struct Fixture {
    n_pairs: u64,
    n_tensors: u64,
    pairs: Vec<u8>,
    entries: Vec<u8>,
    data: Vec<u8>,
    forced_offset: Option<u64>,
}

impl Fixture {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn text(self, key: &str, value: &str) -> Self {
        self.pair(key, 8, |out| string(out, value))
    }

    pub fn texts(self, key: &str, values: &[&str]) -> Self {
        self.pair(key, 9, |out| {
            out.extend(8u32.to_le_bytes());
            out.extend((values.len() as u64).to_le_bytes());
            values.iter().for_each(|value| string(out, value));
        })
    }

    pub fn i32s(self, key: &str, values: &[i32]) -> Self {
        self.pair(key, 9, |out| {
            out.extend(5u32.to_le_bytes());
            out.extend((values.len() as u64).to_le_bytes());
            values.iter().for_each(|value| out.extend(value.to_le_bytes()));
        })
    }

    pub fn u32(self, key: &str, value: u32) -> Self {
        self.pair(key, 4, |out| out.extend(value.to_le_bytes()))
    }

    pub fn f32(self, key: &str, value: f32) -> Self {
        self.pair(key, 6, |out| out.extend(value.to_le_bytes()))
    }

    pub fn flag(self, key: &str, value: bool) -> Self {
        self.pair(key, 7, |out| out.push(value.into()))
    }

    /// A float32 tensor; `dims` outermost first.
    pub fn f32s(self, name: &str, dims: &[usize], values: &[f32]) -> Self {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.raw(name, dims, 0, &bytes)
    }

    /// A tensor of ggml type number `kind`; `dims` outermost first.
    pub fn raw(mut self, name: &str, dims: &[usize], kind: u32, bytes: &[u8]) -> Self {
        self.data.resize(self.data.len().next_multiple_of(ALIGNMENT), 0);
        let offset = self.forced_offset.take().unwrap_or(self.data.len() as u64);
        self.data.extend(bytes);
        self.n_tensors += 1;
        string(&mut self.entries, name);
        self.entries.extend((dims.len() as u32).to_le_bytes());
        dims.iter().rev().for_each(|&dim| self.entries.extend((dim as u64).to_le_bytes()));
        self.entries.extend(kind.to_le_bytes());
        self.entries.extend(offset.to_le_bytes());
        self
    }

    /// Makes the next tensor claim a wrong offset.
    pub fn at_offset(self, offset: u64) -> Self {
        Self { forced_offset: Some(offset), ..self }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut out = b"GGUF\x03\0\0\0".to_vec();
        out.extend(self.n_tensors.to_le_bytes());
        out.extend(self.n_pairs.to_le_bytes());
        out.extend(&self.pairs);
        out.extend(&self.entries);
        out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
        out.extend(&self.data);
        out
    }

    fn pair(mut self, key: &str, kind: u32, value: impl FnOnce(&mut Vec<u8>)) -> Self {
        self.n_pairs += 1;
        string(&mut self.pairs, key);
        self.pairs.extend(kind.to_le_bytes());
        value(&mut self.pairs);
        self
    }
}

fn string(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}
