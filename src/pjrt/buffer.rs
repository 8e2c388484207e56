#![allow(unsafe_code)]

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::{
    call::{Table, slice},
    client_state::{ClientState, LiveBuffer},
    device::Device,
    error::PjrtError,
    handle::{DeviceEvent, Owned},
    sys::{self, CStruct, Call},
};
use crate::base::{ArrayShape, DType, Literal, MemorySpace};

/// An array in host memory, row-major and little-endian, and its destination.
#[derive(Clone, Copy, Debug)]
pub struct HostArray<'a> {
    /// The elements.
    pub bytes: &'a [u8],
    /// Element type and dimensions.
    pub shape: &'a ArrayShape,
    /// Id of the destination device.
    pub device: i32,
    /// Destination memory.
    pub memory: MemorySpace,
}

/// An array in device memory, or in host memory for a device. Dropping it frees the memory.
pub struct Buffer {
    raw: Owned<sys::Buffer>,
    shape: ArrayShape,
    device: i32,
    // Declared last, so that the client outlives the buffer.
    client: LiveBuffer,
}

impl Buffer {
    /// Element type and dimensions.
    pub fn shape(&self) -> &ArrayShape {
        &self.shape
    }

    /// Id of its device.
    pub fn device_id(&self) -> i32 {
        self.device
    }

    /// Size in device memory in bytes, including padding.
    ///
    /// # Errors
    /// If the call fails.
    pub fn bytes_on_device(&self) -> Result<usize, PjrtError> {
        let args = sys::BufferOnDeviceSizeInBytesArgs { buffer: self.raw.raw(), ..CStruct::new() };
        // SAFETY: the buffer is alive.
        unsafe { Ok(self.table().call(args)?.on_device_size_in_bytes) }
    }

    /// Copies the elements to host memory, row-major and little-endian, and waits for the transfer.
    ///
    /// # Errors
    /// [`PjrtError::ByteCount`] if `into` has another length than the shape requires; or the error of the computation of
    /// the array or of the transfer.
    pub fn read_into(&self, into: &mut [u8]) -> Result<(), PjrtError> {
        check_bytes(&self.shape, into.len())?;
        let minor_to_major: Vec<i64> = (0..self.shape.rank() as i64).rev().collect();
        let tiled = sys::MemoryLayoutTiled {
            minor_to_major: minor_to_major.as_ptr(),
            minor_to_major_size: minor_to_major.len(),
            ..CStruct::new()
        };
        let mut layout = sys::MemoryLayout { tiled, type_: 0, ..CStruct::new() };
        let args = sys::BufferToHostBufferArgs {
            src: self.raw.raw(),
            host_layout: &mut layout,
            dst: into.as_mut_ptr().cast(),
            dst_size: into.len(),
            ..CStruct::new()
        };
        // SAFETY: the buffer is alive, the layout outlives the call, and `into` stays borrowed until the copy
        // is done, since this waits for its event.
        unsafe {
            let args = self.table().call(args)?;
            DeviceEvent::new(self.raw.plugin(), sys::BufferToHostBufferArgs::CALL, args.event)?.wait()
        }
    }

    /// A copy of the array in host memory.
    ///
    /// # Errors
    /// As for [`Buffer::read_into`].
    pub fn to_literal(&self) -> Result<Literal, PjrtError> {
        let mut literal = Literal::zeros(self.shape.clone());
        self.read_into(literal.bytes_mut())?;
        Ok(literal)
    }

    /// Starts a copy to a device.
    pub(super) fn upload<'a>(
        client: &Arc<ClientState>,
        array: HostArray<'a>,
    ) -> Result<Upload<'a>, PjrtError> {
        check_bytes(array.shape, array.bytes.len())?;
        let dims: Vec<i64> = array.shape.dims.iter().map(|&dim| dim as i64).collect();
        let args = sys::ClientBufferFromHostBufferArgs {
            client: client.raw(),
            data: array.bytes.as_ptr().cast(),
            type_: to_number(array.shape.dtype),
            dims: dims.as_ptr(),
            num_dims: dims.len(),
            host_buffer_semantics: sys::IMMUTABLE_UNTIL_TRANSFER_COMPLETES,
            device: client.device(array.device)?,
            memory: client.memory(array.device, array.memory)?,
            ..CStruct::new()
        };
        let call = sys::ClientBufferFromHostBufferArgs::CALL;
        // SAFETY: client, device and memory are alive, `dims` outlives the call, and the bytes stay borrowed until the
        // event is ready, which `Upload` ensures. Event and buffer are ours.
        unsafe {
            let args = client.table().call(args)?;
            let done = DeviceEvent::new(client.plugin(), call, args.done_with_host_buffer)?;
            let done = Transfer { done, bytes: PhantomData };
            let raw = Owned::new(client.plugin(), call, args.buffer)?;
            let buffer = Self {
                raw,
                shape: array.shape.clone(),
                device: array.device,
                client: LiveBuffer::new(client),
            };
            Ok(Upload { done, buffer })
        }
    }

    /// Takes ownership of a buffer that the plugin returned.
    ///
    /// # Safety
    /// As for [`Owned::new`]; `raw` is of `client`.
    pub(super) unsafe fn adopt(
        client: &Arc<ClientState>,
        call: &'static str,
        raw: *mut sys::Buffer,
    ) -> Result<Self, PjrtError> {
        // SAFETY: the caller's promise is the same; the buffer is alive from here on.
        unsafe {
            let raw = Owned::new(client.plugin(), call, raw)?;
            let shape = shape_of(client.table(), raw.raw())?;
            let args = sys::BufferDeviceArgs { buffer: raw.raw(), ..CStruct::new() };
            let device = client.table().call(args)?.device;
            let device = Device::id_of(client.table(), device)?;
            Ok(Self { raw, shape, device, client: LiveBuffer::new(client) })
        }
    }

    pub(super) fn raw(&self) -> *mut sys::Buffer {
        self.raw.raw()
    }

    pub(super) fn client(&self) -> &Arc<ClientState> {
        self.client.state()
    }

    /// Blocks until the array is computed or transferred.
    fn wait(&self) -> Result<(), PjrtError> {
        let args = sys::BufferReadyEventArgs { buffer: self.raw.raw(), ..CStruct::new() };
        // SAFETY: the buffer is alive, and the event is ours.
        unsafe {
            let args = self.table().call(args)?;
            DeviceEvent::new(self.raw.plugin(), sys::BufferReadyEventArgs::CALL, args.event)?.wait()
        }
    }

    fn table(&self) -> Table {
        self.raw.plugin().table()
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} on device {})", self.shape, self.device)
    }
}

/// A transfer in progress. It never leaves this module's callers, which finish or drop it while the bytes are borrowed.
pub(super) struct Upload<'a> {
    done: Transfer<'a>,
    buffer: Buffer,
}

impl Upload<'_> {
    /// Waits for the transfer.
    pub(super) fn finish(self) -> Result<Buffer, PjrtError> {
        self.done.done.wait()?;
        self.buffer.wait()?;
        Ok(self.buffer)
    }
}

/// The borrow of the host bytes; dropping it waits until the plugin no longer reads them.
struct Transfer<'a> {
    done: DeviceEvent,
    bytes: PhantomData<&'a [u8]>,
}

impl Drop for Transfer<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.done.wait() {
            tracing::debug!(%error, "transfer to the device failed");
        }
    }
}

fn check_bytes(shape: &ArrayShape, found: usize) -> Result<(), PjrtError> {
    if shape.bytes() == found { Ok(()) } else { Err(PjrtError::ByteCount { shape: shape.clone(), found }) }
}

/// # Safety
/// `buffer` is alive.
unsafe fn shape_of(table: Table, buffer: *mut sys::Buffer) -> Result<ArrayShape, PjrtError> {
    // SAFETY: the buffer is alive, and so is the list of sizes it owns.
    unsafe {
        let number = table.call(sys::BufferElementTypeArgs { buffer, ..CStruct::new() })?.type_;
        let dtype = from_number(number).ok_or_else(|| PjrtError::Malformed {
            call: sys::BufferElementTypeArgs::CALL,
            what: format!("an unknown element type: {number}"),
        })?;
        let args = table.call(sys::BufferDimensionsArgs { buffer, ..CStruct::new() })?;
        let dims = slice(args.dims, args.num_dims).iter().map(|&dim| {
            usize::try_from(dim).map_err(|_| PjrtError::Malformed {
                call: sys::BufferDimensionsArgs::CALL,
                what: format!("a negative dimension: {dim}"),
            })
        });
        Ok(ArrayShape::new(dtype, dims.collect::<Result<Vec<_>, _>>()?))
    }
}

/// `PJRT_Buffer_Type`. The numbers are those of `xla.PrimitiveType`, except for bfloat16.
fn to_number(dtype: DType) -> i32 {
    match dtype {
        DType::Pred => 1,
        DType::S8 => 2,
        DType::S16 => 3,
        DType::S32 => 4,
        DType::S64 => 5,
        DType::U8 => 6,
        DType::U16 => 7,
        DType::U32 => 8,
        DType::U64 => 9,
        DType::F16 => 10,
        DType::F32 => 11,
        DType::F64 => 12,
        DType::BF16 => 13,
    }
}

fn from_number(number: i32) -> Option<DType> {
    DType::ALL.iter().copied().find(|&dtype| to_number(dtype) == number)
}
