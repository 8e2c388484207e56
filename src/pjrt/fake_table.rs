#![allow(unsafe_code)]
//! A table of calls for tests, in which initialization fails.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{
    call::Table,
    sys::{self, Api},
};

pub(super) static FREED: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn fail(_: *mut sys::PluginInitializeArgs) -> *mut sys::Error {
    Box::into_raw(Box::new(7u8)).cast()
}

unsafe extern "C" fn message(args: *mut sys::ErrorMessageArgs) {
    let text = b"not available\n";
    // SAFETY: the caller passes a live structure.
    unsafe {
        (*args).message = text.as_ptr().cast();
        (*args).message_size = text.len();
    }
}

unsafe extern "C" fn code(args: *mut sys::ErrorGetCodeArgs) -> *mut sys::Error {
    // SAFETY: as above.
    unsafe { (*args).code = 5 };
    std::ptr::null_mut()
}

unsafe extern "C" fn destroy(args: *mut sys::ErrorDestroyArgs) {
    // SAFETY: `fail` made the error from a box.
    drop(unsafe { Box::from_raw((*args).error.cast::<u8>()) });
    FREED.fetch_add(1, Ordering::SeqCst);
}

/// Table of API 0.`minor` and `struct_size` bytes, in which initialization fails.
pub(super) fn fake_table(struct_size: usize, minor: i32) -> Table {
    // SAFETY: zeros are a valid table without any call.
    let mut api: Box<Api> = Box::new(unsafe { std::mem::zeroed() });
    api.struct_size = struct_size;
    api.pjrt_api_version.minor_version = minor;
    api.Error_Message = Some(message);
    api.Error_GetCode = Some(code);
    api.Error_Destroy = Some(destroy);
    api.Plugin_Initialize = Some(fail);
    // SAFETY: the box is leaked.
    unsafe { Table::new(NonNull::from(Box::leak(api))) }
}
