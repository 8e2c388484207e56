//! What a shared library's file promises and what it asks of others.

use std::fs::File;
use std::io;
use std::path::Path;

use object::{
    Endianness,
    elf::{DT_NEEDED, DT_RPATH, DT_RUNPATH, FileHeader64, SHT_DYNSYM, STB_WEAK},
    read::{
        ReadCache, ReadRef,
        elf::{FileHeader, Sym},
    },
};

type ElfHeader = FileHeader64<Endianness>;

/// What a library takes from another one, or from whichever has it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Import {
    /// The symbol's name.
    pub symbol: String,
    /// The library it must come from, and the version it must have there; a symbol without a version may come
    /// from anywhere.
    pub version: Option<SymbolVersion>,
}

/// A version of a symbol.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SymbolVersion {
    /// The library's name, such as `libamdhip64.so.7`.
    pub library: String,
    /// The version's name, such as `hip_4.2`.
    pub name: String,
}

/// What a library needs before it can be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Needs {
    /// Names of libraries, in the order in which the loader takes them.
    pub libraries: Vec<String>,
    /// Folders in which the loader searches them first; `$ORIGIN` stands for the library's own.
    pub folders: Vec<String>,
    /// Symbols that it does not define itself; those that may stay undefined are left out.
    pub imports: Vec<Import>,
}

/// Reads what a library needs.
///
/// # Errors
/// If the file cannot be read, or its tables contradict themselves.
pub(crate) fn needs(path: &Path) -> io::Result<Needs> {
    let cache = ReadCache::new(File::open(path)?);
    read_needs(&cache).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

fn read_needs<'d, R: ReadRef<'d>>(data: R) -> object::Result<Needs> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let header = ElfHeader::parse(data)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, data)?;
    let dynamic = sections.dynamic_table(endian, data)?;
    let (mut libraries, mut folders) = (Vec::new(), Vec::new());
    for entry in dynamic.iter() {
        match entry.tag {
            DT_NEEDED => libraries.push(text(dynamic.string(entry)?)),
            // The reader has a limit for strings, which long paths exceed; they only help to explain errors.
            DT_RPATH | DT_RUNPATH => {
                let path = dynamic.string(entry).map(text).unwrap_or_default();
                folders.extend(path.split(':').map(str::to_owned));
            }
            _ => {}
        }
    }
    let symbols = sections.symbols(endian, data, SHT_DYNSYM)?;
    let versions = sections.versions(endian, data)?;
    let mut imports = Vec::new();
    for (index, symbol) in symbols.enumerate() {
        let undefined = symbol.is_undefined(endian) && symbol.st_bind() != STB_WEAK;
        let symbol = text(symbol.name(endian, symbols.strings())?);
        if !undefined || symbol.is_empty() {
            continue;
        }
        let version = match &versions {
            Some(table) => table.version(table.version_index(endian, index).index())?,
            None => None,
        };
        let version = version.and_then(|version| {
            Some(SymbolVersion { library: text(version.file()?), name: text(version.name()) })
        });
        imports.push(Import { symbol, version });
    }
    Ok(Needs { libraries, folders, imports })
}
