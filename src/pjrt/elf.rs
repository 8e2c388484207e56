//! Imports of a shared library: libraries, search folders and symbols.

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

/// A symbol that a library imports.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Import {
    /// The symbol's name.
    pub symbol: String,
    /// Library and version that it is imported from; any library may define a symbol without a version.
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

/// Requirements for loading a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Needs {
    /// Names of libraries, in the loader's order.
    pub libraries: Vec<String>,
    /// Folders that the loader searches first; `$ORIGIN` is the folder of the library.
    pub folders: Vec<String>,
    /// Undefined symbols, without weak ones.
    pub imports: Vec<Import>,
}

/// Reads the requirements of a library.
///
/// # Errors
/// If the file cannot be read, or its tables are malformed.
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
            // The reader limits strings, which long paths exceed. They only improve messages, so an unreadable one is skipped.
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
