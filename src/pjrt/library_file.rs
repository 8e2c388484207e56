//! Checks the format of a plugin file before the system's loader opens it. The loader's messages name no machine, and a
//! truncated file can crash it.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use object::{
    Endianness, elf,
    read::{
        ReadCache,
        elf::{FileHeader, ProgramHeader},
    },
};

use super::error::PjrtError;
use crate::base::FileKind;

/// Bytes from the start of a file that decide its format.
const HEAD: u64 = 1024;

/// Rejects a file that is not a complete shared library for this machine.
///
/// # Errors
/// If the file cannot be read, has another format or is for another machine, or is truncated.
pub(super) fn check(path: &Path) -> Result<(), PjrtError> {
    let open = |source| PjrtError::Open { path: path.to_owned(), source };
    let kind = fs::metadata(path).map_err(open)?.file_type();
    // Reading a pipe could block.
    if !kind.is_file() && !kind.is_dir() {
        return Err(open(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")));
    }
    let mut head = Vec::new();
    let file = File::open(path).map_err(open)?;
    // A folder can be opened too; reading it is the system's error.
    (&file).take(HEAD).read_to_end(&mut head).map_err(open)?;
    if cfg!(not(target_os = "linux")) {
        return Ok(());
    }
    let expected = Elf::of_this_machine();
    let wrong = |found: String| {
        let (path, expected) = (path.to_owned(), expected.to_string());
        Err(PjrtError::Format { path, expected, found })
    };
    match Elf::read(&head) {
        None => return wrong(other_format(&head)),
        Some(found) if !expected.loads(&found) => return wrong(found.to_string()),
        Some(_) => {}
    }
    let found = file.metadata().map_err(open)?.len();
    let malformed = |error: object::Error| open(io::Error::new(io::ErrorKind::InvalidData, error));
    match end_of_segments(file).map_err(malformed)? {
        None => wrong("an ELF shared library without a segment to load".into()),
        Some(end) if end > found => Err(PjrtError::Truncated { path: path.to_owned(), expected: end, found }),
        Some(_) => Ok(()),
    }
}

/// The format that this machine loads.
pub(super) fn expected() -> String {
    Elf::of_this_machine().to_string()
}

/// End of the last segment that the loader maps; `None` if there is none.
fn end_of_segments(file: File) -> object::Result<Option<u64>> {
    let cache = ReadCache::new(file);
    let header = elf::FileHeader64::<Endianness>::parse(&cache)?;
    let endian = header.endian()?;
    let segments = header.program_headers(endian, &cache)?.iter();
    let loaded = segments.filter(|segment| segment.p_type(endian) == elf::PT_LOAD);
    Ok(loaded.map(|s| s.p_offset(endian).saturating_add(s.p_filesz(endian))).max())
}

/// The fields of an ELF header that decide whether a machine can load the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Elf {
    bits: u8,
    big_endian: bool,
    kind: elf::FileType,
    machine: elf::Machine,
}

/// Machines by their numbers in ELF headers.
const MACHINES: &[(elf::Machine, &str)] = &[
    (elf::EM_386, "x86"),
    (elf::EM_X86_64, "x86-64"),
    (elf::EM_ARM, "ARM"),
    (elf::EM_AARCH64, "AArch64"),
    (elf::EM_PPC, "PowerPC"),
    (elf::EM_PPC64, "PowerPC64"),
    (elf::EM_S390, "S/390"),
    (elf::EM_MIPS, "MIPS"),
    (elf::EM_SPARCV9, "SPARC"),
    (elf::EM_RISCV, "RISC-V"),
    (elf::EM_LOONGARCH, "LoongArch"),
    (elf::EM_AMDGPU, "AMD GPUs"),
    (elf::EM_CUDA, "NVIDIA GPUs"),
];

impl Elf {
    fn of_this_machine() -> Self {
        let machine = match () {
            () if cfg!(target_arch = "x86_64") => elf::EM_X86_64,
            () if cfg!(target_arch = "aarch64") => elf::EM_AARCH64,
            () if cfg!(target_arch = "powerpc64") => elf::EM_PPC64,
            () if cfg!(target_arch = "riscv64") => elf::EM_RISCV,
            () if cfg!(target_arch = "loongarch64") => elf::EM_LOONGARCH,
            () if cfg!(target_arch = "s390x") => elf::EM_S390,
            // The loader checks other machines.
            () => elf::EM_NONE,
        };
        Self { bits: 64, big_endian: cfg!(target_endian = "big"), kind: elf::ET_DYN, machine }
    }

    /// Reads the header; `None` if the file is not ELF.
    fn read(head: &[u8]) -> Option<Self> {
        let head: &[u8; 20] = head.strip_prefix(&elf::ELFMAG).and(head.first_chunk())?;
        let big_endian = head[5] == 2;
        let number = |at: usize| {
            let bytes = [head[at], head[at + 1]];
            if big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
        };
        let bits = if head[4] == 2 { 64 } else { 32 };
        Some(Self { bits, big_endian, kind: elf::FileType(number(16)), machine: elf::Machine(number(18)) })
    }

    /// Whether this machine loads a file with the header `found`.
    fn loads(&self, found: &Self) -> bool {
        let machine = if self.machine == elf::EM_NONE { found.machine } else { self.machine };
        Self { machine, ..*self } == *found
    }
}

impl std::fmt::Display for Elf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let endian = if self.big_endian { "big-endian" } else { "little-endian" };
        let kind = match self.kind {
            elf::ET_REL => "object file",
            elf::ET_EXEC => "executable",
            elf::ET_CORE => "core dump",
            _ => "shared library",
        };
        write!(f, "a {}-bit {endian} ELF {kind} for ", self.bits)?;
        match MACHINES.iter().find(|(number, _)| *number == self.machine) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "machine {}", self.machine.0),
        }
    }
}

/// Names the format of a file that is not ELF.
fn other_format(head: &[u8]) -> String {
    const MAGIC: &[(&[u8], &str)] = &[
        (b"!<arch>\n", "a static library"),
        (b"!<thin>\n", "a static library"),
        (b"\x7fELF", "the start of an ELF file"),
        (b"\xcf\xfa\xed\xfe\x07\x00\x00\x01", "a 64-bit Mach-O file for x86-64 (macOS)"),
        (b"\xcf\xfa\xed\xfe\x0c\x00\x00\x01", "a 64-bit Mach-O file for AArch64 (macOS)"),
        (b"\xcf\xfa\xed\xfe", "a 64-bit Mach-O file (macOS)"),
        (b"\xce\xfa\xed\xfe", "a 32-bit Mach-O file (macOS)"),
        (b"\xca\xfe\xba\xbe", "a universal Mach-O file (macOS)"),
        (b"MZ", "a PE file (Windows)"),
    ];
    if let Some((_, name)) = MAGIC.iter().find(|(magic, _)| head.starts_with(magic)) {
        return (*name).into();
    }
    let text = String::from_utf8_lossy(head);
    match FileKind::of(head) {
        FileKind::Text(_) if LINKER_SCRIPT.iter().any(|word| text.contains(word)) => "a linker script".into(),
        other => other.to_string(),
    }
}

/// Words by which a linker script is known.
const LINKER_SCRIPT: [&str; 4] = ["GNU ld script", "OUTPUT_FORMAT", "GROUP", "INPUT"];

#[cfg(test)]
mod tests {
    /// The header of a shared library for x86-64 with some bytes replaced.
    fn header(changes: &[(usize, u8)]) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[..20].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0");
        changes.iter().for_each(|&(at, byte)| bytes[at] = byte);
        bytes
    }

    #[test]
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    fn other_files_than_libraries_for_this_machine_are_named() {
        const EXPECTED: &str = "a 64-bit little-endian ELF shared library for x86-64";
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plugin.so");
        let check = |bytes: &[u8], expect: &str| {
            std::fs::write(&path, bytes).unwrap();
            let error = super::check(&path).unwrap_err().to_string().replace(path.to_str().unwrap(), "P");
            assert_eq!(error, format!("cannot load plugin: P: expected {EXPECTED}, found {expect}"));
        };
        check(&header(&[(18, 0xb7)]), "a 64-bit little-endian ELF shared library for AArch64");
        check(&header(&[(18, 0xf3)]), "a 64-bit little-endian ELF shared library for RISC-V");
        check(&header(&[(4, 1), (18, 3)]), "a 32-bit little-endian ELF shared library for x86");
        check(&header(&[(4, 1)]), "a 32-bit little-endian ELF shared library for x86-64");
        let swapped = [(5, 2), (16, 0), (17, 3), (18, 0), (19, 0x16)];
        check(&header(&swapped), "a 64-bit big-endian ELF shared library for S/390");
        check(
            &header(&[(18, 0x99), (19, 0x99)]),
            "a 64-bit little-endian ELF shared library for machine 39321",
        );
        check(&header(&[(16, 1)]), "a 64-bit little-endian ELF object file for x86-64");
        check(&header(&[(16, 2)]), "a 64-bit little-endian ELF executable for x86-64");
        check(&header(&[]), "an ELF shared library without a segment to load");
        check(&header(&[])[..10], "the start of an ELF file");
        check(b"", "an empty file");
        check(b"!<arch>\nlibx.o/", "a static library");
        check(b"\xcf\xfa\xed\xfe\x0c\x00\x00\x01\x00\x00", "a 64-bit Mach-O file for AArch64 (macOS)");
        check(b"\xca\xfe\xba\xbe\x00\x00\x00\x02", "a universal Mach-O file (macOS)");
        check(b"MZ\x90\x00\x03", "a PE file (Windows)");
        check(b"PK\x03\x04\x14\x00", "a ZIP archive");
        check(b"/* GNU ld script */\nGROUP ( /lib/libc.so.6 )", "a linker script");
        check(b"grunz", "text that begins with `grunz`");
        check(&[7, 0, 200, 201, 202, 203, 204], "binary data of an unknown format");
    }
}
