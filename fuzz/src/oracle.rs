//! What must hold of whatever a reader accepts.

use hloom::hlo::{Module, proto, text, verify};

/// A module that parses prints as text that parses as the same module.
pub fn prints_and_parses(module: &Module) {
    let printed = text::print_module(module);
    let read = text::parse(&printed, "printed.hlo");
    assert_eq!(read.as_ref(), Ok(module), "{printed}");
}

/// A verified module survives its text and its proto. A proto has names of its own where two computations share one.
pub fn round_trips(module: Module) {
    let Ok(verified) = verify(module) else { return };
    let text = text::print(&verified);
    let read = text::parse(&text, "printed.hlo").unwrap_or_else(|error| panic!("{error}\n{text}"));
    let bytes = proto::encode(&verified);
    let decoded = proto::decode(&bytes).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(nameless(decoded.clone()), nameless(verified.into_module()), "{text}");
    let (read, decoded) = (verify(read), verify(decoded));
    let (read, decoded) = (read.expect("text stays verified"), decoded.expect("a proto stays verified"));
    assert_eq!(text::print(&read), text);
    let again = proto::decode(&proto::encode(&decoded)).expect("a proto that we wrote");
    assert_eq!(&again, decoded.module());
}

/// The module with numbers as the names of instructions.
fn nameless(mut module: Module) -> Module {
    for instr in module.computations.iter_mut().flat_map(|computation| &mut computation.instrs) {
        instr.name.clear();
    }
    module.annotations = Default::default();
    module
}
