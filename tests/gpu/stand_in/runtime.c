/* Stands in for NVIDIA's runtime library: PyTorch's own host code then sees as many
 * GPUs as FAKE_GPUS says. It is preloaded, so that its functions are found before those
 * of libcudart. Memory is the host's. There are no kernels: the first one fails, and so
 * does cuDNN, which is as far as a test without a GPU can follow the work of one.
 *
 * What makes programs fail is as the driver has it: CUDA_VISIBLE_DEVICES is read once,
 * when CUDA starts in a process; of several MIG slices a process sees one; and in a
 * process that was forked from one in which CUDA has started it fails.
 *
 * The file FAKE_GPU_LOG gets a line "WHAT PID CUDA_VISIBLE_DEVICES" when a process
 * starts CUDA, and when it first allocates memory on a GPU.
 */
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ALIGNMENT = 512 }; /* bytes, of what cudaMalloc returns */

static const size_t MEMORY = 80ul << 30;
static pid_t started_in;
static int number_seen;
static __thread int current_device;

static void note(const char *what) {
  const char *path = getenv("FAKE_GPU_LOG");
  if (!path) return;
  const char *visible = getenv("CUDA_VISIBLE_DEVICES");
  char line[256];
  int size = snprintf(line, sizeof line, "%s %d %s\n", what, (int)getpid(),
                      visible ? visible : "all");
  int log = open(path, O_WRONLY | O_CREAT | O_APPEND, 0666);
  if (log < 0) return;
  /* one call, so that lines of several processes do not mix */
  if (write(log, line, size) != size) abort();
  close(log);
}

static int count_names(const char *visible) {
  if (!*visible || *visible == '-') return 0;
  if (!strncmp(visible, "MIG-", 4)) return 1;
  int names = 1;
  for (; *visible; visible++) names += *visible == ',';
  return names;
}

static void start(void) {
  const char *number = getenv("FAKE_GPUS");
  const char *visible = getenv("CUDA_VISIBLE_DEVICES");
  number_seen = number ? atoi(number) : 1;
  if (visible && count_names(visible) < number_seen) number_seen = count_names(visible);
  started_in = getpid();
  if (number_seen) note("start");
}

cudaError_t cudaGetDeviceCount(int *count) {
  if (!started_in) start();
  *count = 0;
  if (started_in != getpid()) return cudaErrorInitializationError;
  *count = number_seen;
  return number_seen ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t cudaGetDevice(int *device) {
  *device = current_device;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  int count;
  cudaError_t error = cudaGetDeviceCount(&count);
  if (error) return error;
  if (device >= count) return cudaErrorInvalidDevice;
  current_device = device;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *found, int device) {
  memset(found, 0, sizeof *found);
  strcpy(found->name, "Fake A100");
  found->totalGlobalMem = MEMORY;
  found->major = 8;
  found->multiProcessorCount = 108;
  found->warpSize = 32;
  found->maxThreadsPerBlock = 1024;
  found->maxThreadsPerMultiProcessor = 2048;
  found->textureAlignment = 512;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device) {
  *value = attribute == cudaDevAttrComputeCapabilityMajor ? 8 : 0;
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *unused, size_t *total) {
  *unused = MEMORY / 2;
  *total = MEMORY;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void **memory, size_t size) {
  static pid_t noted_in;
  if (noted_in != getpid()) note("memory");
  noted_in = getpid();
  *memory = aligned_alloc(ALIGNMENT, (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
  return *memory ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaFree(void *memory) {
  free(memory);
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **memory, size_t size, unsigned flags) {
  *memory = aligned_alloc(ALIGNMENT, (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
  return *memory ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaFreeHost(void *memory) {
  free(memory);
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t size, enum cudaMemcpyKind kind) {
  memmove(to, from, size);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size,
                            enum cudaMemcpyKind kind, cudaStream_t stream) {
  memmove(to, from, size);
  return cudaSuccess;
}

cudaError_t cudaMemset(void *memory, int value, size_t size) {
  memset(memory, value, size);
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t size, cudaStream_t stream) {
  memset(memory, value, size);
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *found,
                                     const void *memory) {
  memset(found, 0, sizeof *found); /* it is the host's */
  return cudaSuccess;
}

/* The real library's functions that are not here, those for kernels among them, find no
 * driver and fail.
 */

const char *cudaGetErrorString(cudaError_t error) {
  if (error == cudaErrorInitializationError) return "CUDA was started before the fork";
  return "a fake GPU has no kernels";
}

const char *cudaGetErrorName(cudaError_t error) { return cudaGetErrorString(error); }
cudaError_t cudaGetLastError(void) { return cudaSuccess; }
cudaError_t cudaPeekAtLastError(void) { return cudaSuccess; }

/* Streams and events: what is asked is done at once, so there is nothing to wait for. */

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  *least = *greatest = 0;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority) {
  *stream = malloc(1);
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream,
                                  enum cudaStreamCaptureStatus *status) {
  *status = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode) {
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
  *event = malloc(1);
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void) { return cudaSuccess; }
cudaError_t cudaStreamQuery(cudaStream_t stream) { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return cudaSuccess; }
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) { return cudaSuccess; }
cudaError_t cudaEventQuery(cudaEvent_t event) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t event) { return cudaSuccess; }
cudaError_t cudaEventDestroy(cudaEvent_t event) { return cudaSuccess; }

/* Versions, and the functions of the driver, of which PyTorch makes a table. */

cudaError_t cudaDriverGetVersion(int *version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

static int succeed(void) { return 0; }

cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function,
                                             unsigned version, unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *result) {
  *function = succeed;
  if (result) *result = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}
