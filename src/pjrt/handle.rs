#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::Arc;

use super::{
    error::PjrtError,
    plugin::Plugin,
    sys::{self, CStruct, Call},
};

/// A type of plugin objects that the caller of the C API owns and destroys by a call.
pub(super) trait PjrtObject: Sized {
    type Destroy: Call;

    fn destroy_args(object: *mut Self) -> Self::Destroy;
}

macro_rules! objects {
    ($( $object:ident: $args:ident.$field:ident; )*) => {
        $(
            impl PjrtObject for sys::$object {
                type Destroy = sys::$args;

                fn destroy_args(object: *mut Self) -> Self::Destroy {
                    sys::$args { $field: object, ..CStruct::new() }
                }
            }
        )*
    };
}

objects! {
    Event: EventDestroyArgs.event;
    Client: ClientDestroyArgs.client;
    Buffer: BufferDestroyArgs.buffer;
    Executable: ExecutableDestroyArgs.executable;
    LoadedExecutable: LoadedExecutableDestroyArgs.executable;
    TopologyDescription: TopologyDescriptionDestroyArgs.topology;
}

/// An owned object of the plugin; dropping it destroys it. It keeps the plugin alive; the type around it keeps alive the
/// other objects that it depends on, in a field declared after this one.
pub(super) struct Owned<T: PjrtObject> {
    raw: NonNull<T>,
    plugin: Arc<Plugin>,
}

// SAFETY: PJRT's objects may be used and destroyed from any thread, several at once.
unsafe impl<T: PjrtObject> Send for Owned<T> {}
// SAFETY: as above.
unsafe impl<T: PjrtObject> Sync for Owned<T> {}

impl<T: PjrtObject> Owned<T> {
    /// Takes ownership of an object that `call` returned.
    ///
    /// # Safety
    /// `raw` is null, or a live object of `plugin` that nothing else destroys.
    pub(super) unsafe fn new(
        plugin: &Arc<Plugin>,
        call: &'static str,
        raw: *mut T,
    ) -> Result<Self, PjrtError> {
        match NonNull::new(raw) {
            Some(raw) => Ok(Self { raw, plugin: plugin.clone() }),
            None => Err(PjrtError::Malformed { call, what: "a null pointer".into() }),
        }
    }

    /// The object, alive as long as `self`.
    pub(super) fn raw(&self) -> *mut T {
        self.raw.as_ptr()
    }

    pub(super) fn plugin(&self) -> &Arc<Plugin> {
        &self.plugin
    }
}

impl<T: PjrtObject> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: the object is alive and nothing uses it afterwards.
        if let Err(error) = unsafe { self.plugin.table().call(T::destroy_args(self.raw.as_ptr())) } {
            tracing::warn!(%error, "plugin failed to destroy an object");
        }
    }
}

/// Completion of an asynchronous operation.
pub(super) struct DeviceEvent(Owned<sys::Event>);

impl DeviceEvent {
    /// # Safety
    /// As for [`Owned::new`].
    pub(super) unsafe fn new(
        plugin: &Arc<Plugin>,
        call: &'static str,
        raw: *mut sys::Event,
    ) -> Result<Self, PjrtError> {
        // SAFETY: the caller's promise is the same.
        Ok(Self(unsafe { Owned::new(plugin, call, raw) }?))
    }

    /// Blocks until the operation has finished, and returns its error, if any.
    pub(super) fn wait(&self) -> Result<(), PjrtError> {
        // SAFETY: the event is alive.
        unsafe {
            self.0
                .plugin()
                .table()
                .call(sys::EventAwaitArgs { event: self.0.raw(), ..CStruct::new() })
                .map(|_| ())
        }
    }
}
