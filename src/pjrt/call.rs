#![allow(unsafe_code)]
//! The function through which every call to a plugin goes.

use std::ffi::c_char;
use std::mem::offset_of;
use std::ptr::NonNull;

use super::{
    error::{ErrorCode, PjrtError},
    sys::{self, Api, CStruct, Call},
};

/// A plugin's table of calls. It and the library that it points into live as long as the process.
#[derive(Clone, Copy)]
pub(super) struct Table(NonNull<Api>);

// SAFETY: the table is never written after the plugin returned it, and PJRT's calls may come from any thread.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

impl Table {
    /// # Safety
    /// `api` is the table that a plugin's `GetPjrtApi` returned; it stays valid for the rest of the process.
    pub(super) unsafe fn new(api: NonNull<Api>) -> Self {
        Self(api)
    }

    /// Offset of the end of the version, which every table has.
    pub(super) const VERSION_END: usize = offset_of!(Api, Error_Destroy);

    /// Size of the table in bytes, as its `struct_size` says.
    pub(super) fn size(&self) -> usize {
        // SAFETY: the first field is the table's size.
        unsafe { (*self.0.as_ptr()).struct_size }
    }

    /// Major and minor version of the API that the plugin was built with.
    pub(super) fn version(&self) -> (i32, i32) {
        // SAFETY: every table since the first version begins with its size and its version.
        let version = unsafe { (*self.0.as_ptr()).pjrt_api_version };
        (version.major_version, version.minor_version)
    }

    /// Makes the call that `args` belongs to, and returns `args` with the fields that the plugin has set. The plugin's
    /// error object is read and destroyed.
    ///
    /// # Safety
    /// Every pointer in `args` that the call reads or writes through is valid for that, for as long as the header
    /// requires.
    pub(super) unsafe fn call<A: Call>(&self, mut args: A) -> Result<A, PjrtError> {
        type Function<A> = unsafe extern "C" fn(*mut A) -> *mut sys::Error;
        // SAFETY: `Call` promises that the slot holds a nullable function of this type.
        let Some(function) = (unsafe { self.slot::<Function<A>>(A::SLOT) }) else {
            let (major, minor) = self.version();
            return Err(PjrtError::MissingCall { call: A::CALL, major, minor });
        };
        // SAFETY: `args` announces its own size; the caller vouches for the pointers in it.
        match NonNull::new(unsafe { function(&mut args) }) {
            None => Ok(args),
            Some(error) => Err(self.failed(A::CALL, error)),
        }
    }

    /// # Safety
    /// The slot at `offset` holds a nullable function pointer of type `F`.
    unsafe fn slot<F>(&self, offset: usize) -> Option<F> {
        const { assert!(size_of::<Option<F>>() == size_of::<usize>()) };
        if offset + size_of::<usize>() > self.size() {
            return None;
        }
        // SAFETY: the slot ends inside the table, and the caller vouches for its type.
        unsafe { self.0.as_ptr().byte_add(offset).cast::<Option<F>>().read() }
    }

    /// Converts the plugin's error and destroys it.
    fn failed(&self, call: &'static str, error: NonNull<sys::Error>) -> PjrtError {
        type Free<A> = unsafe extern "C" fn(*mut A);
        let error = error.as_ptr();
        let mut message = String::new();
        // SAFETY: the header gives both slots this type; `error` is alive until it is destroyed below, and the
        // message, copied here, lives as long as the error.
        unsafe {
            if let Some(read) = self.slot::<Free<sys::ErrorMessageArgs>>(offset_of!(Api, Error_Message)) {
                let mut args = sys::ErrorMessageArgs { error, ..CStruct::new() };
                read(&mut args);
                message = text(args.message, args.message_size);
            }
        }
        // SAFETY: `error` is alive. If the call fails in turn, the code is unknown.
        let code = unsafe { self.code(error) };
        // SAFETY: the slot's type is the header's, and nothing uses `error` afterwards.
        unsafe {
            if let Some(destroy) = self.slot::<Free<sys::ErrorDestroyArgs>>(offset_of!(Api, Error_Destroy)) {
                destroy(&mut sys::ErrorDestroyArgs { error, ..CStruct::new() });
            }
        }
        let message = match message.trim() {
            "" => "no message".to_owned(),
            text => text.to_owned(),
        };
        PjrtError::Failed { call, code, message }
    }

    /// # Safety
    /// `error` is alive.
    unsafe fn code(&self, error: *mut sys::Error) -> ErrorCode {
        type Function = unsafe extern "C" fn(*mut sys::ErrorGetCodeArgs) -> *mut sys::Error;
        let mut args = sys::ErrorGetCodeArgs { error, ..CStruct::new() };
        // SAFETY: the slot's type is the header's, and the caller vouches for `error`.
        let answer =
            unsafe { self.slot::<Function>(sys::ErrorGetCodeArgs::SLOT).map(|function| function(&mut args)) };
        match answer {
            Some(nested) if nested.is_null() => ErrorCode::from_number(args.code),
            _ => ErrorCode::Unknown,
        }
    }
}

/// A copy of the plugin's text; invalid UTF-8 is replaced.
///
/// # Safety
/// `start` is null, or `size` bytes from it are readable.
pub(super) unsafe fn text(start: *const c_char, size: usize) -> String {
    // SAFETY: the caller's promise is the same.
    String::from_utf8_lossy(&unsafe { bytes(start, size) }).into_owned()
}

/// A copy of the plugin's bytes.
///
/// # Safety
/// `start` is null, or `size` bytes from it are readable.
pub(super) unsafe fn bytes(start: *const c_char, size: usize) -> Vec<u8> {
    // SAFETY: the caller's promise is the same.
    unsafe { slice(start.cast(), size) }.to_vec()
}

/// The plugin's array, empty where it is null.
///
/// # Safety
/// `start` is null, or `count` aligned values from it are readable for `'a`.
pub(super) unsafe fn slice<'a, T>(start: *const T, count: usize) -> &'a [T] {
    if start.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: not null, and the caller vouches for the rest.
    unsafe { std::slice::from_raw_parts(start, count) }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::{
        super::fake_table::{FREED, fake_table},
        *,
    };

    fn error_of<A: Call>(table: Table) -> String {
        // SAFETY: the fake calls read nothing through the arguments.
        unsafe { table.call(A::new()) }.err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_failed_call_is_named_and_its_error_freed() {
        let before = FREED.load(Ordering::SeqCst);
        assert_eq!(
            error_of::<sys::PluginInitializeArgs>(fake_table(size_of::<Api>(), 81)),
            "PJRT_Plugin_Initialize failed with NOT_FOUND: not available"
        );
        assert_eq!(FREED.load(Ordering::SeqCst), before + 1);
    }

    #[test]
    fn a_call_past_the_end_of_the_table_is_missing() {
        let end = sys::PluginInitializeArgs::SLOT + size_of::<usize>();
        for size in [end - 1, end - size_of::<usize>()] {
            assert_eq!(
                error_of::<sys::PluginInitializeArgs>(fake_table(size, 81)),
                "plugin of PJRT API 0.81 does not implement a call: PJRT_Plugin_Initialize"
            );
        }
    }

    #[test]
    fn an_empty_slot_is_missing() {
        assert_eq!(
            error_of::<sys::ClientCreateArgs>(fake_table(size_of::<Api>(), 81)),
            "plugin of PJRT API 0.81 does not implement a call: PJRT_Client_Create"
        );
    }
}
