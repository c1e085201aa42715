namespace onnxfit {}
