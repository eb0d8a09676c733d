/* Stands in for NVML, by which PyTorch counts GPUs without starting CUDA. */
#include <stdlib.h>

int nvmlInit(void) { return 0; }

int nvmlDeviceGetCount_v2(int *count) {
  const char *number = getenv("FAKE_GPUS");
  *count = number ? atoi(number) : 1;
  return 0;
}
